package mysqllock

import (
	"database/sql"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/testserver"
	"github.com/rowlock/rowlock/migrations"
)

// migration is the only migration file.
func migration(t testing.TB) string {
	t.Helper()
	files, err := fs.Glob(migrations.MySQL, "mysql/*.up.sql")
	must(t, err)
	if len(files) != 1 {
		t.Fatalf("%q: nothing was published yet, so there is one migration", files)
	}
	text, err := migrations.MySQL.ReadFile(files[0])
	must(t, err)
	return string(text)
}

// TestSchema: an empty database gets the same tables from Migrate and from the file alone, run once or twice, and
// every strategy works with them.
func TestSchema(t *testing.T) {
	t.Parallel()
	for _, kind := range testserver.Some(t, testserver.MySQL, testserver.MariaDB) {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			byLibrary := newLab(t, kind, VersionColumn)
			byLibrary.store()
			byFile := newLab(t, kind, VersionColumn)
			byFile.config.MultiStatements = true
			db := byFile.open(byFile.config)
			for range 2 {
				exec(t, db, migration(t))
			}
			want, got := schemaOf(t, byLibrary.db), schemaOf(t, byFile.db)
			if !slices.Equal(got, want) || len(got) < 60 {
				t.Errorf("the file makes another schema than Migrate:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
			for _, strategy := range []Strategy{VersionColumn, UniqueInsert, SelectForUpdate} {
				byFile.strategy = strategy
				c := client{t: t, Store: byFile.bare()}
				must(t, c.Check(patient(t)))
				for range 2 {
					h := c.granted("report", time.Minute)
					c.wants("renew", c.renew(h)[0].Status, driver.Alive)
					c.wants("release", c.release(h)[0].Status, driver.Released)
				}
			}
		})
	}
}

// schemaOf is every table, column and index of a database, in words.
func schemaOf(t testing.TB, db *sql.DB) (lines []string) {
	t.Helper()
	for _, question := range []string{
		"SELECT CONCAT_WS(' ',TABLE_NAME,ENGINE) FROM information_schema.TABLES WHERE TABLE_SCHEMA=DATABASE() ORDER BY 1",
		"SELECT CONCAT_WS(' ',TABLE_NAME,LPAD(ORDINAL_POSITION,2,'0'),COLUMN_NAME,COLUMN_TYPE,IS_NULLABLE) FROM information_schema.COLUMNS WHERE TABLE_SCHEMA=DATABASE() ORDER BY 1",
		"SELECT CONCAT_WS(' ',TABLE_NAME,INDEX_NAME,NON_UNIQUE,SEQ_IN_INDEX,COLUMN_NAME) FROM information_schema.STATISTICS WHERE TABLE_SCHEMA=DATABASE() ORDER BY 1",
	} {
		rows, err := db.Query(question)
		must(t, err)
		for rows.Next() {
			var line string
			must(t, rows.Scan(&line))
			lines = append(lines, line)
		}
		must(t, rows.Err())
	}
	return lines
}

var aTable = regexp.MustCompile(`(?s)CREATE TABLE (?:IF NOT EXISTS )?(\w+) \((.*?)\n\) ENGINE=InnoDB;`)

// linesOf are the lines of each table in a text, without comments and spaces to align them.
func linesOf(text string) map[string][]string {
	tables := make(map[string][]string)
	for _, m := range aTable.FindAllStringSubmatch(text, -1) {
		for line := range strings.Lines(m[2]) {
			line, _, _ = strings.Cut(line, "--")
			if line = strings.Join(strings.Fields(strings.TrimSuffix(strings.TrimSpace(line), ",")), " "); line != "" {
				tables[m[1]] = append(tables[m[1]], line)
			}
		}
	}
	return tables
}

// TestDocsSchema: the tables in docs/strategies.md are those of the migration. Where the page leaves something out (…) what it
// shows is there.
func TestDocsSchema(t *testing.T) {
	page, err := os.ReadFile(strategiesPage)
	must(t, err)
	made, shown := linesOf(migration(t)), linesOf(string(page))
	if len(shown) < 3 {
		t.Errorf("only %d tables on the page", len(shown))
	}
	for name, lines := range shown {
		partly := slices.ContainsFunc(lines, func(s string) bool { return strings.HasPrefix(s, "…") })
		for _, line := range lines {
			if !strings.HasPrefix(line, "…") && !slices.Contains(made[name], line) {
				t.Errorf("%s: the migration has no line %q", name, line)
			}
		}
		if !partly && len(lines) != len(made[name]) {
			t.Errorf("%s: %d lines on the page, %d in the migration", name, len(lines), len(made[name]))
		}
	}
}
