package mysqllock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/rowlock/rowlock/doctor"
	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/mysql/internal/conn"
	"github.com/rowlock/rowlock/mysql/internal/row"
)

// tables looks at each table as Check does, and goes on after the first that does not fit.
func (e *examination) tables(ctx context.Context) error {
	layout := e.s.layout()
	const missing, foreign, engine = "RL120", "RL123", "RL124"
	bad := make(map[string]bool) // by ID
	defined, err := e.s.defined(layout)
	if err != nil {
		return err
	}
	for _, d := range defined {
		var needed []row.Layout // none: it may be missing
		if i := slices.IndexFunc(layout, func(t row.Layout) bool { return t.Table == d.table }); i >= 0 {
			needed = layout[i : i+1]
		}
		err := conn.DetachedErr(ctx, e.s.db, "doctor", func(ctx context.Context) error {
			return e.s.db.Slow(ctx, func(c *conn.Conn) error { return checkTables(ctx, c, needed, []definition{d}, "run Migrate") })
		})
		id := missing
		switch {
		case err == nil:
			continue
		case errors.Is(err, driver.ErrNotSupported) && strings.Contains(err.Error(), d.table):
			id = engine
		case errors.Is(err, driver.ErrSchema) && conn.Number(err) != conn.ErNoTable:
			id = foreign
		case !errors.Is(err, driver.ErrSchema):
			if n := conn.Number(err); n != 0 && n != conn.ErDatabaseDenied && n != conn.ErTableDenied { // which RL110 says
				e.add("RL163", doctor.Fail, err.Error())
			}
			if err := e.refused(missing, err); err != nil {
				return err
			}
			bad[missing] = true
			continue
		}
		bad[id] = true
		value, mend := err.Error(), "rowlock migrate --up"
		if id == missing {
			value = "table " + d.table + " is missing"
		}
		if unfit := (*misfit)(nil); errors.As(err, &unfit) {
			value, mend = "table "+d.table+": "+strings.Join(unfit.faults, "; "), unfit.statement()
		}
		e.add(id, doctor.Fail, value, "table", d.table, "mend", mend)
	}
	e.fit = len(bad) == 0
	for _, id := range []string{missing, foreign, engine} {
		if !bad[id] {
			e.add(id, doctor.OK, count(len(layout), "table"))
		}
	}
	return nil
}

// attached looks for what others have attached to the tables. A trigger on INSERT or UPDATE hides what LAST_INSERT_ID(expr)
// was set to, by which an acquire tells whether it took the key:
// https://dev.mysql.com/doc/refman/9.7/en/information-functions.html#function_last-insert-id
func (e *examination) attached(ctx context.Context) error {
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
	if found == 0 {
		e.add(id, doctor.OK, "nothing is seen")
	}
	return nil
}

// sprint is Sprintf for a format that may not use all arguments.
func sprint(format, a, b string) string {
	return strings.NewReplacer("%[1]s", a, "%[2]s", b, "%s", a).Replace(format)
}

const (
	manyDead = 1000
	sample   = 100_000 // rows that are counted at most
)

// deadRows counts what nobody reaps.
func (e *examination) deadRows(ctx context.Context) error {
	const id = "RL122"
	dead, found := 0, false
	for _, t := range e.s.layout() {
		if !slices.Contains(t.Columns, "expires_at") {
			continue
		}
		rows, err := e.sessions[0].ask(ctx, fmt.Sprintf("SELECT COUNT(*) FROM (SELECT expires_at FROM %s LIMIT %d) AS t WHERE expires_at<"+row.Now+"-INTERVAL 2 DAY", t.Table, sample))
		switch conn.Number(err) {
		case conn.ErNoTable, conn.ErNoColumn, conn.ErTableDenied: // RL120, RL123 and RL110 say so
			continue
		}
		if err != nil {
			return e.refused(id, err)
		}
		n, _ := strconv.Atoi(rows[0][0])
		dead += n
		if n > manyDead {
			found = true
			e.add(id, doctor.Warn, fmt.Sprintf("%d in table %s", n, t.Table))
		}
	}
	if !found {
		e.add(id, doctor.OK, strconv.Itoa(dead))
	}
	return nil
}
