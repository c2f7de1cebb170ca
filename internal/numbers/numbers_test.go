package numbers

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rowlock/rowlock/driver"
)

// TestClient: no client has the number of the server's queue (rule 13 of package driver), and each is one that a hint can name.
func TestClient(t *testing.T) {
	least := client(func(uint32) uint32 { return 0 })
	most := client(func(n uint32) uint32 { return n - 1 })
	if least <= driver.QueueClient || least != driver.MinClient || most != driver.MaxClient {
		t.Errorf("numbers from %d to %d, want those from %d to %d", least, most, driver.MinClient, driver.MaxClient)
	}
	for range 1000 {
		if n := Client(); n < driver.MinClient || n > driver.MaxClient {
			t.Fatal(n)
		}
	}
}

// TestNumbersAreDrawnHere: nothing else draws a number out of those of clients.
func TestNumbersAreDrawnHere(t *testing.T) {
	draws := regexp.MustCompile(`\.\w*(?:Int|Uint)\w*\(.*driver\.MaxClient`)
	read := 0
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && strings.HasPrefix(d.Name(), ".") && len(d.Name()) > 2 {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		read++
		text, err := os.ReadFile(path)
		if err == nil && draws.Match(text) {
			t.Errorf("%s draws a number of a client: package numbers does", path)
		}
		return err
	})
	if err != nil || read < 100 {
		t.Fatalf("%d files, %v", read, err)
	}
}
