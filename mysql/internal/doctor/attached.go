package doctor

import (
	"context"
	"fmt"
	"strings"

	"github.com/rowlock/rowlock/doctor"
)

// attached looks for what others have attached to the tables. A trigger on INSERT or UPDATE hides what LAST_INSERT_ID(expr)
// was set to, by which an acquire tells whether it took the key:
// https://dev.mysql.com/doc/refman/9.7/en/information-functions.html#function_last-insert-id
func (e *Examination) attached(ctx context.Context) error {
	const id = "RL121"
	found := 0
	const triggers = "SELECT TRIGGER_NAME,EVENT_OBJECT_TABLE FROM information_schema.TRIGGERS WHERE EVENT_OBJECT_SCHEMA=DATABASE() AND EVENT_OBJECT_TABLE IN (%s) AND EVENT_MANIPULATION"
	for _, q := range []struct {
		severity            doctor.Severity
		text, value, remove string
	}{
		{doctor.Fail, triggers + "<>'DELETE'", "trigger %s on INSERT or UPDATE of table %s", "DROP TRIGGER `%s`"},
		{doctor.Warn, triggers + "='DELETE'", "trigger %s on DELETE of table %s", "DROP TRIGGER `%s`"},
		{doctor.Warn, "SELECT CONSTRAINT_NAME,TABLE_NAME FROM information_schema.REFERENTIAL_CONSTRAINTS WHERE CONSTRAINT_SCHEMA=DATABASE() AND (TABLE_NAME IN (%[1]s) OR REFERENCED_TABLE_NAME IN (%[1]s))",
			"foreign key %s of table %s", "ALTER TABLE `%[2]s` DROP FOREIGN KEY `%[1]s`"},
		{doctor.Warn, "SELECT DISTINCT PARTITION_METHOD,TABLE_NAME FROM information_schema.PARTITIONS WHERE TABLE_SCHEMA=DATABASE() AND PARTITION_NAME IS NOT NULL AND TABLE_NAME IN (%s)",
			"partitions by %s of table %s", "ALTER TABLE `%[2]s` REMOVE PARTITIONING"},
	} {
		rows, err := e.sessions[0].ask(ctx, fmt.Sprintf(q.text, e.own()))
		if err != nil {
			return e.refused(id, err)
		}
		for _, r := range rows {
			found++
			e.add(id, q.severity, fmt.Sprintf(q.value, r[0], r[1]), "remove", sprint(q.remove, r[0], r[1]))
		}
	}
	if found > 0 {
		return nil
	}
	return e.unseen(ctx, id, "TRIGGER", "nothing is seen")
}

// unseen adds that nothing was found, where the account has the privilege to see it.
func (e *Examination) unseen(ctx context.Context, id, privilege, value string) error {
	switch sees, err := e.sees(ctx, privilege); {
	case err != nil:
		return e.refused(id, err)
	case sees:
		e.add(id, doctor.OK, value)
	default:
		e.add(id, doctor.Skipped, value+", and the account has no privilege "+privilege+" of its own")
	}
	return nil
}

// events looks for those of the server's scheduler that name a lock table, in whatever schema they are.
func (e *Examination) events(ctx context.Context) error {
	const id = "RL125"
	if e.report.Ignores(id) {
		return nil
	}
	var names []string
	for _, t := range e.Layout {
		names = append(names, "LOCATE('"+strings.Trim(t.Table, "`")+"',EVENT_DEFINITION)>0")
	}
	rows, err := e.sessions[0].ask(ctx, "SELECT EVENT_SCHEMA,EVENT_NAME FROM information_schema.EVENTS WHERE STATUS='ENABLED' AND ("+strings.Join(names, " OR ")+") ORDER BY 1,2 LIMIT 50")
	if err != nil {
		return e.refused(id, err)
	}
	for _, r := range rows {
		e.add(id, doctor.Warn, fmt.Sprintf("event %s of schema %s", r[1], r[0]), "event", "`"+r[0]+"`.`"+r[1]+"`")
	}
	if len(rows) > 0 {
		return nil
	}
	return e.unseen(ctx, id, "EVENT", "none is seen")
}

// sprint is Sprintf for a format that may not use all arguments.
func sprint(format, a, b string) string {
	return strings.NewReplacer("%[1]s", a, "%[2]s", b, "%s", a).Replace(format)
}
