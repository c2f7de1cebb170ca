package schema

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/mysql/internal/conn"
)

// Made is how a table of the database was made.
type Made struct {
	engine  string // VIEW for a view; empty: there is no such table, or the user has no right to see it
	columns map[string]madeColumn
	unique  map[string][]string // the columns of each unique index, with (n) where only the first n bytes count
}

// madeColumn is a column as information_schema describes it.
type madeColumn struct {
	kind, extra   string
	null, noValue bool // noValue: no default
}

func (c madeColumn) is() string {
	if extra := c.special(); extra != "" {
		return c.kind + " " + nullability(c.null) + " " + extra
	}
	return c.kind + " " + nullability(c.null)
}

// special is what makes the column one that the server writes by itself; empty: it is none.
func (c madeColumn) special() string {
	extra := strings.ToUpper(c.extra)
	for _, s := range []string{"VIRTUAL GENERATED", "STORED GENERATED", "AUTO_INCREMENT", "ON UPDATE"} {
		if strings.Contains(extra, s) {
			return s
		}
	}
	return ""
}

// Read asks for all the tables in one statement, which looks up each by its name: an IN makes MariaDB look at all tables
// of the schema. The words are cast because a UNION of different collations is refused.
func Read(ctx context.Context, c *conn.Conn, tables []Definition) (map[string]*Made, error) {
	const inTable = " WHERE TABLE_SCHEMA=DATABASE() AND TABLE_NAME="
	t := conn.NewText(1000 * len(tables))
	found := make(map[string]*Made)
	for i, d := range tables {
		name := strings.Trim(d.Table, "`")
		found[d.Table] = &Made{columns: make(map[string]madeColumn), unique: make(map[string][]string)}
		if i > 0 {
			t.Add(" UNION ALL ")
		}
		t.Add("SELECT ").Int(int64(i)).Add(" AS t,0 AS n,CAST(COALESCE(ENGINE,TABLE_TYPE) AS BINARY) AS name,CAST('' AS BINARY) AS what,CAST('' AS BINARY) AS extra,0 AS nullable,0 AS bare FROM information_schema.TABLES" + inTable).Key(name).
			Add(" UNION ALL SELECT ").Int(int64(i)).Add(",-1,CAST(COLUMN_NAME AS BINARY),CAST(CONCAT(COLUMN_TYPE,IFNULL(CONCAT(' COLLATE ',COLLATION_NAME),'')) AS BINARY),CAST(EXTRA AS BINARY),IS_NULLABLE='YES',COLUMN_DEFAULT IS NULL FROM information_schema.COLUMNS" + inTable).Key(name).
			Add(" UNION ALL SELECT ").Int(int64(i)).Add(",SEQ_IN_INDEX,CAST(INDEX_NAME AS BINARY),CAST(CONCAT(IFNULL(LOWER(COLUMN_NAME),'an expression'),IFNULL(CONCAT('(',SUB_PART,')'),'')) AS BINARY),'',0,0 FROM information_schema.STATISTICS" + inTable).Key(name).
			Add(" AND NON_UNIQUE=0")
	}
	_, err := conn.Query(ctx, c, 0, t.Add(" ORDER BY t,n").String(), func(rows *sql.Rows) (bool, error) {
		var i, n int
		var name, what, extra sql.NullString
		var null, noValue bool
		if err := rows.Scan(&i, &n, &name, &what, &extra, &null, &noValue); err != nil {
			return false, err
		}
		switch m := found[tables[i].Table]; n {
		case 0:
			m.engine = name.String
		case -1:
			m.columns[strings.ToLower(name.String)] = madeColumn{what.String, extra.String, null, noValue}
		default:
			m.unique[name.String] = append(m.unique[name.String], what.String)
		}
		return true, nil
	})
	return found, err
}

// IsThere reports whether there is such a table, and the user may see it.
func (is *Made) IsThere() bool { return is.engine != "" }

// check compares a table with its definition; nil: it fits. A column that the user has no right to see is not
// judged.
func (is *Made) check(d Definition) *Finding {
	switch {
	case strings.HasSuffix(is.engine, "VIEW"):
		return unfit("%s is a view, it must be a table: rename it and run Migrate, or set Options.Prefix", d.Table)
	case !strings.EqualFold(is.engine, "InnoDB"):
		err := fmt.Errorf("%w: table %s is kept by %s, which has no row locks, and no migration repairs this: ALTER TABLE %s ENGINE=InnoDB", driver.ErrNotSupported, d.Table, is.engine, d.Table)
		return &Finding{Engine, err.Error(), "", err}
	}
	m := &misfit{}
	is.checkColumns(d, m)
	is.checkIndexes(d, m)
	return m.finding(d.Table)
}

// isForeign reports whether a table has columns, and none of ours.
func (is *Made) isForeign(d Definition) bool {
	return len(is.columns) > 0 && !slices.ContainsFunc(d.Columns, func(c Column) bool { _, ours := is.columns[c.Name]; return ours })
}

func (is *Made) checkColumns(d Definition, m *misfit) {
	ours := make(map[string]bool)
	for _, want := range d.Columns {
		ours[want.Name] = true
		c, ok := is.columns[want.Name]
		if !ok || takes(c.kind, strings.ToLower(want.Kind)) && c.null == want.Null && c.special() == "" && !(want.Empty && c.noValue) {
			continue
		}
		mend := "MODIFY " + want.String()
		if c.special() == "VIRTUAL GENERATED" { // MODIFY is refused
			mend = "DROP COLUMN " + want.Name + ", ADD COLUMN " + want.String()
		}
		m.add(mend, "column %s is %s, it must be %s", want.Name, c.is(), want.Is())
	}
	for _, name := range slices.Sorted(maps.Keys(is.columns)) {
		c := is.columns[name]
		if ours[name] {
			continue
		}
		special := c.special()
		counts := special == "AUTO_INCREMENT" && d.guard != nil                                                         // a lease's token comes back as LAST_INSERT_ID, in the place of which the number would
		bare := !c.null && c.noValue && (special == "" || special == "ON UPDATE") && !strings.HasPrefix(c.kind, "enum") // which begins with its first value
		switch mend := "MODIFY `" + name + "` " + c.kind + " NULL"; {
		case counts:
			m.add(mend, "column %s, which is not rowlock's, is %s, it must not be AUTO_INCREMENT: that hides the tokens of the leases", name, c.is())
		case bare:
			m.add(mend, "column %s, which is not rowlock's, is %s and has no default, it must have one, or be NULL", name, c.is())
		}
	}
}

func (is *Made) checkIndexes(d Definition, m *misfit) {
	for _, name := range slices.Sorted(maps.Keys(is.unique)) {
		columns := is.unique[name]
		switch {
		case name == "PRIMARY":
			if !slices.Equal(columns, d.Primary) {
				m.add("DROP PRIMARY KEY, ADD PRIMARY KEY ("+strings.Join(d.Primary, ", ")+")", "the primary key is over (%s), it must be over (%s)", strings.Join(columns, ","), strings.Join(d.Primary, ","))
			}
		case strings.EqualFold(name, "guard") && d.guard != nil:
			if !slices.Equal(columns, d.guard) {
				m.add("DROP INDEX guard, ADD UNIQUE KEY guard ("+strings.Join(d.guard, ", ")+")", "the unique index guard is over (%s), it must be over (%s)", strings.Join(columns, ","), strings.Join(d.guard, ","))
			}
		case slices.ContainsFunc(d.Primary, func(c string) bool { return !slices.Contains(columns, c) }): // it can refuse a row of ours
			m.add("DROP INDEX `"+name+"`", "the unique index %s over (%s), which is not rowlock's, must not be there", name, strings.Join(columns, ","))
		}
	}
	missing := func(name string) bool {
		return !slices.ContainsFunc(slices.Collect(maps.Keys(is.unique)), func(n string) bool { return strings.EqualFold(n, name) })
	}
	if d.guard != nil && missing("guard") {
		m.add("ADD UNIQUE KEY guard ("+strings.Join(d.guard, ", ")+")", "the unique index guard is missing, it must be over (%s)", strings.Join(d.guard, ","))
	}
	if missing("PRIMARY") {
		m.add("ADD PRIMARY KEY ("+strings.Join(d.Primary, ", ")+")", "the primary key is missing, it must be over (%s)", strings.Join(d.Primary, ","))
	}
}
