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

// TestDocsProgram: the whole program in docs/transactions.md runs as it is, but for the address.
func TestDocsProgram(t *testing.T) {
	t.Parallel()
	l := newLab(t, testserver.MySQL, VersionColumn)
	text := docpage.One(t, "../docs/transactions.md", "program", "mysql")
	program := strings.Replace(text, strconv.Quote("app:secret@tcp(db:3306)/app"), strconv.Quote(l.config.FormatDSN()), 1)
	if program == text {
		t.Fatal("the program does not have the address that this test replaces")
	}
	file := filepath.Join(t.TempDir(), "main.go")
	must(t, os.WriteFile(file, []byte(program), 0o600))
	out, err := osexec.CommandContext(t.Context(), "go", "run", file).CombinedOutput()
	if err != nil || string(out) != "written\n" {
		t.Fatalf("%v: %s", err, out)
	}
	var n int
	must(t, l.db.QueryRow("SELECT COUNT(*) FROM example_reports").Scan(&n))
	if n != 1 {
		t.Errorf("%d rows were written", n)
	}
}
