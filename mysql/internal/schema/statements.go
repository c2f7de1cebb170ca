package schema

import (
	"fmt"
	"io/fs"
	"regexp"
	"strings"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/migrations"
)

// DefaultPrefix is that of the names of the tables.
const DefaultPrefix = "rowlock"

var ownTable = regexp.MustCompile(`\b` + DefaultPrefix + `_`)

// Statements gives the statements of the migration files in order, with the
// tables' prefix.
func Statements(prefix string) ([]string, error) {
	files, err := fs.Glob(migrations.MySQL, "mysql/*.up.sql")
	if err != nil {
		return nil, err
	}
	var statements []string
	for _, name := range files { // sorted
		b, err := migrations.MySQL.ReadFile(name)
		if err != nil {
			return nil, err
		}
		var lines []string
		for line := range strings.Lines(string(b)) {
			if !strings.HasPrefix(line, "--") {
				lines = append(lines, line)
			}
		}
		for _, statement := range strings.Split(strings.Join(lines, ""), ";\n") {
			if statement = strings.TrimSpace(statement); statement != "" {
				statements = append(statements, ownTable.ReplaceAllString(statement, prefix+"_"))
			}
		}
	}
	if len(statements) == 0 {
		return nil, fmt.Errorf("%w: no migration files", driver.ErrSchema)
	}
	return statements, nil
}
