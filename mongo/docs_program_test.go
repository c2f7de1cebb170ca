package mongolock

import (
	"os"
	"os/exec"
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
	uri := testserver.DSN(t, testserver.Mongo)
	text := docpage.One(t, "../docs/transactions.md", "program", "mongo")
	program := strings.Replace(text, strconv.Quote("mongodb://db:27017/?replicaSet=rs0"), strconv.Quote(uri), 1)
	if program == text {
		t.Fatal("the program does not have the address that this test replaces")
	}
	file := filepath.Join(t.TempDir(), "main.go")
	if err := os.WriteFile(file, []byte(program), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), "go", "run", file).CombinedOutput()
	if err != nil || string(out) != "written\n" {
		t.Fatalf("%v: %s", err, out)
	}
}
