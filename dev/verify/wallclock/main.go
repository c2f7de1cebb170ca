// Command wallclock prepares a build in which the wall clock of the program can be
// wrong: a copy of Go's time.Now that adds a shift, and an overlay that puts it in the
// place of the original.
//
//	go run ./wallclock DIR
//	go build -overlay DIR/overlay.json -tags wallclock .
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "use: wallclock DIR")
		os.Exit(2)
	}
	if err := write(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "wallclock:", err)
		os.Exit(1)
	}
}

// now is the beginning of time.Now.
var now = regexp.MustCompile(`(?m)^func Now\(\) Time \{\n\tsec, nsec, mono := \w+\(\)\n`)

const shift = "\tsec += wallShift\n"

// variable can be set from another package.
const variable = "\n//go:linkname wallShift\n\n// wallShift is by how many seconds Now is wrong.\nvar wallShift int64\n"

func write(dir string) error {
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return err
	}
	original := filepath.Join(strings.TrimSpace(string(root)), "src", "time", "time.go")
	text, err := os.ReadFile(original)
	if err != nil {
		return err
	}
	at := now.FindIndex(text)
	if at == nil {
		return fmt.Errorf("%s: time.Now does not begin as expected", original)
	}
	changed := string(text[:at[1]]) + shift + string(text[at[1]:]) + variable
	if dir, err = filepath.Abs(dir); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	copied := filepath.Join(dir, "time.go")
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {original: copied}})
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "overlay.json"), overlay, 0o644); err != nil {
		return err
	}
	return os.WriteFile(copied, []byte(changed), 0o644)
}
