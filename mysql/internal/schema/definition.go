package schema

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Definition is how the migration makes a table. It is what Check compares the table with.
type Definition struct {
	Table   string // quoted
	Create  string // the statement
	Columns []Column
	Primary []string
	guard   []string // the columns of the unique index guard; nil: it has none
}

// Names are those of its columns.
func (d Definition) Names() (names []string) {
	for _, c := range d.Columns {
		names = append(names, c.Name)
	}
	return names
}

// Column is one column as the migration makes it.
type Column struct {
	Name, Kind string // Kind is its type, as DATETIME(6)
	Null       bool
	Empty      bool // it has the default ''
}

func (c Column) String() string { return c.Name + " " + c.Is() }

// Is is its type, whether it may be NULL, and its default.
func (c Column) Is() string {
	if c.Empty {
		return c.Kind + " " + nullability(c.Null) + " DEFAULT ''"
	}
	return c.Kind + " " + nullability(c.Null)
}

func nullability(null bool) string {
	if null {
		return "NULL"
	}
	return "NOT NULL"
}

var (
	createLine  = regexp.MustCompile(`^CREATE TABLE IF NOT EXISTS (\w+) \($`)
	columnLine  = regexp.MustCompile(`^(\w+) +([A-Z]+(?:\(\d+\))?(?: UNSIGNED)?) +(NOT NULL|NULL)( DEFAULT '')?$`)
	primaryLine = regexp.MustCompile(`^PRIMARY KEY \((.*)\)$`)
	keyLine     = regexp.MustCompile(`^KEY \w+ \(.*\)$`) // the reads name it, and fail where it is missing
	guardLine   = regexp.MustCompile(`^UNIQUE KEY guard \((.*)\)$`)
)

// Definitions are those of all tables, in the order of the migration.
func Definitions(prefix string) ([]Definition, error) {
	statements, err := Statements(prefix)
	if err != nil {
		return nil, err
	}
	var all []Definition
	for _, statement := range statements {
		d := Definition{Create: statement}
		for line := range strings.Lines(statement) {
			line = strings.TrimSuffix(strings.TrimSpace(line), ",")
			if m := createLine.FindStringSubmatch(line); m != nil {
				d.Table = "`" + m[1] + "`"
			} else if m := primaryLine.FindStringSubmatch(line); m != nil {
				d.Primary = strings.Split(m[1], ", ")
			} else if m := guardLine.FindStringSubmatch(line); m != nil {
				d.guard = strings.Split(m[1], ", ")
			} else if m := columnLine.FindStringSubmatch(line); m != nil {
				d.Columns = append(d.Columns, Column{m[1], m[2], m[3] == "NULL", m[4] != ""})
			} else if !keyLine.MatchString(line) && !strings.HasPrefix(line, ")") {
				return nil, fmt.Errorf("mysql: a migration file has the line %q, which Check cannot read", line)
			}
		}
		all = append(all, d)
	}
	return all, nil
}

var kindPattern = regexp.MustCompile(`^([a-z]+)(?:\((\d+)\))?(.*)$`)

// takes reports whether a column of the type is can hold and compare all that one of the type want can. Both are as
// information_schema writes them, in small letters: a display width, as in bigint(20), means nothing.
func takes(is, want string) bool {
	i, w := kindPattern.FindStringSubmatch(is), kindPattern.FindStringSubmatch(want)
	if i == nil || w == nil {
		return false
	}
	length, _ := strconv.Atoi(i[2])
	least, _ := strconv.Atoi(w[2])
	switch w[1] {
	case "varbinary":
		if n, ok := map[string]int64{"tinyblob": 1<<8 - 1, "blob": 1<<16 - 1, "mediumblob": 1<<24 - 1, "longblob": 1<<32 - 1}[i[1]]; ok {
			return n >= int64(least)
		}
		return i[1] == "varbinary" && length >= least
	case "binary": // a longer one fills the value up, and then it is another value
		return i[1] == "binary" && length == least || i[1] == "varbinary" && length >= least
	case "bigint":
		return i[1] == "bigint" && strings.Contains(i[3], "unsigned")
	}
	return i[1] == w[1] && length >= least && i[3] == w[3]
}
