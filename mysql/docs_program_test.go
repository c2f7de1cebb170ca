package mysqllock

import (
	"os"
	osexec "os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/rowlock/rowlock/internal/docpage"
	"github.com/rowlock/rowlock/internal/testserver"
)

// TestDocsProgram: the whole programs of README.md and docs/transactions.md run as they are, but for the address.
func TestDocsProgram(t *testing.T) {
	t.Parallel()
	l := newLab(t, testserver.MySQL, VersionColumn)
	for page, says := range map[string]string{
		"../README.md":            "nobody else makes the report now\n",
		"../docs/transactions.md": "written\n",
	} {
		text := docpage.One(t, page, "program", "mysql")
		program := strings.Replace(text, strconv.Quote("app:secret@tcp(db:3306)/app"), strconv.Quote(l.config.FormatDSN()), 1)
		if program == text {
			t.Fatalf("the program of %s does not have the address that this test replaces", page)
		}
		file := filepath.Join(t.TempDir(), "main.go")
		must(t, os.WriteFile(file, []byte(program), 0o600))
		out, err := osexec.CommandContext(t.Context(), "go", "run", file).CombinedOutput()
		if err != nil || string(out) != says {
			t.Fatalf("%s: %v: %s", page, err, out)
		}
	}
	var n int
	must(t, l.db.QueryRow("SELECT COUNT(*) FROM example_reports").Scan(&n))
	if n != 1 {
		t.Errorf("%d rows were written", n)
	}
}
