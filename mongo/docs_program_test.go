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

// TestDocsProgram: the whole programs of docs/guides/first-lock.md and docs/transactions.md run as they are, but for the
// address.
func TestDocsProgram(t *testing.T) {
	t.Parallel()
	uri := testserver.DSN(t, testserver.Mongo)
	for page, says := range map[string]string{
		"../docs/guides/first-lock.md": "nobody else makes the report now\n",
		"../docs/transactions.md":      "written\n",
	} {
		text := docpage.One(t, page, "program", "mongo")
		program := strings.Replace(text, strconv.Quote("mongodb://db:27017/?replicaSet=rs0"), strconv.Quote(uri), 1)
		if program == text {
			t.Fatalf("the program of %s does not have the address that this test replaces", page)
		}
		file := filepath.Join(t.TempDir(), "main.go")
		if err := os.WriteFile(file, []byte(program), 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := exec.CommandContext(t.Context(), "go", "run", file).CombinedOutput()
		if err != nil || string(out) != says {
			t.Fatalf("%s: %v: %s", page, err, out)
		}
	}
}
