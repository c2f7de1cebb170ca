package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/rowlock/rowlock/doctor"
	"github.com/rowlock/rowlock/mysql/internal/cluster"
	"github.com/rowlock/rowlock/mysql/internal/conn"
)

const erSyntax = 1064

// filters looks whether replicas get the lock tables at all. A source may leave a schema out of its binary log, and a replica may
// leave out what it gets: those of other servers cannot be seen, but this one may have been a replica.
func (e *Examination) filters(ctx context.Context, kind cluster.Kind, replicas int) error {
	const id = "RL141"
	seen, err := e.leftOut(ctx)
	if conn.Number(err) != 0 {
		return e.refused(id, err)
	}
	if err != nil {
		return err
	}
	severity := doctor.Info
	if replicas > 0 || kind == cluster.SemiSync || kind == cluster.Group {
		severity = doctor.Fail
	}
	for _, s := range seen {
		e.add(id, severity, s)
	}
	if len(seen) == 0 && (kind == cluster.SemiSync || kind == cluster.Group) {
		e.add(id, doctor.OK, "as it should be")
	}
	return nil
}

// leftOut says which filters leave out a lock table.
func (e *Examination) leftOut(ctx context.Context) (seen []string, err error) {
	on := e.sessions[0]
	rows, err := on.ask(ctx, "SELECT DATABASE()")
	if err != nil {
		return nil, err
	}
	schema := rows[0][0]
	rules := make(map[string][]string) // by name
	note := func(name, list string) {
		for _, v := range strings.Split(list, ",") {
			if v = strings.Trim(strings.TrimSpace(v), "`"); v != "" {
				rules[name] = append(rules[name], v)
			}
		}
	}
	if conn.IsOn(e.settings["log_bin"]) {
		rows, err := on.ask(ctx, "SHOW BINARY LOG STATUS")
		if n := conn.Number(err); n == erSyntax {
			rows, err = on.ask(ctx, "SHOW MASTER STATUS") // before MySQL 8.4, and on MariaDB
		}
		if err != nil {
			return nil, err
		}
		if len(rows) > 0 && len(rows[0]) >= 4 {
			note("binlog_do_db", rows[0][2])
			note("binlog_ignore_db", rows[0][3])
		}
	}
	const names = "replicate_do_db,replicate_ignore_db,replicate_do_table,replicate_ignore_table,replicate_wild_do_table,replicate_wild_ignore_table"
	for _, name := range strings.Split(names, ",") {
		note(name, e.settings[name]) // MariaDB
	}
	if !e.mariaDB {
		rows, err := on.ask(ctx, "SELECT FILTER_NAME,FILTER_RULE FROM performance_schema.replication_applier_global_filters UNION SELECT FILTER_NAME,FILTER_RULE FROM performance_schema.replication_applier_filters")
		if err != nil && conn.Number(err) == 0 {
			return nil, err
		}
		for _, r := range rows { // without the right there are none
			note(strings.ToLower(r[0]), r[1])
		}
	}
	for _, kind := range []string{"binlog", "replicate"} {
		for _, t := range e.Layout {
			if rule := filter(rules, kind, schema, strings.Trim(t.Table, "`")); rule != "" {
				seen = append(seen, fmt.Sprintf("%s is %s: table %s of schema %s is left out", rule, strings.Join(rules[rule], ","), t.Table, schema))
				break
			}
		}
	}
	return seen, nil
}

// filter names the rule that leaves a table out; empty: none does. The rules are asked in the order in which the server does:
// https://dev.mysql.com/doc/refman/9.7/en/replication-rules-table-options.html
func filter(rules map[string][]string, kind, schema, table string) string {
	has := func(rule, value string) bool { return slices.Contains(rules[kind+rule], value) }
	full := schema + "." + table
	wild := func(rule string) bool {
		return slices.ContainsFunc(rules[kind+rule], func(pattern string) bool { return like(pattern, full) })
	}
	switch {
	case len(rules[kind+"_do_db"]) > 0:
		if !has("_do_db", schema) {
			return kind + "_do_db"
		}
	case has("_ignore_db", schema):
		return kind + "_ignore_db"
	}
	switch {
	case has("_do_table", full):
		return ""
	case has("_ignore_table", full):
		return kind + "_ignore_table"
	case wild("_wild_do_table"):
		return ""
	case wild("_wild_ignore_table"):
		return kind + "_wild_ignore_table"
	}
	for _, rule := range []string{"_do_table", "_wild_do_table"} {
		if len(rules[kind+rule]) > 0 {
			return kind + rule
		}
	}
	return ""
}

// like is LIKE of SQL: % is any text, _ one character, and \ takes the meaning from the next.
func like(pattern, text string) bool {
	switch {
	case pattern == "":
		return text == ""
	case pattern[0] == '%':
		for i := range len(text) + 1 {
			if like(pattern[1:], text[i:]) {
				return true
			}
		}
		return false
	case text == "":
		return false
	case pattern[0] == '\\' && len(pattern) > 1:
		return pattern[1] == text[0] && like(pattern[2:], text[1:])
	case pattern[0] == '_', pattern[0] == text[0]:
		return like(pattern[1:], text[1:])
	}
	return false
}
