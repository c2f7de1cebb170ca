// Command licenses prints the licences of all that a program contains: of each module that the package in the current
// folder is built of, for the platforms that are named, and of Go. A module without a licence is an error.
//
//	licenses linux/amd64 windows/amd64
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

func main() {
	found, err := collect(".", os.Args[1:])
	if err == nil {
		err = found.print(os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "licenses:", err)
		os.Exit(1)
	}
}

// licences are the files with them, by the module (with its version) that they are of.
type licences map[string][]string

// pkg is what is read of go list.
type pkg struct {
	Dir      string
	Standard bool
	Module   *struct{ Path, Version, Dir string }
}

// named are files with licences, and what must be handed on with them.
var named = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|patents)\b`)

// collect asks for the packages of each platform, and looks for licences in their folders and those above, up to that of
// their module.
func collect(folder string, platforms []string) (licences, error) {
	found := make(licences)
	for _, platform := range platforms {
		system, processor, ok := strings.Cut(platform, "/")
		if !ok {
			return nil, fmt.Errorf("the platform %q: use the likes of linux/amd64", platform)
		}
		list := exec.Command("go", "list", "-deps", "-json=Dir,Standard,Module", ".")
		list.Dir, list.Stderr = folder, os.Stderr
		list.Env = append(os.Environ(), "GOOS="+system, "GOARCH="+processor, "CGO_ENABLED=0")
		out, err := list.Output()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", list, err)
		}
		for in := json.NewDecoder(bytes.NewReader(out)); ; {
			var p pkg
			if err := in.Decode(&p); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				return nil, err
			}
			if err := found.add(p); err != nil {
				return nil, err
			}
		}
	}
	for module, files := range found {
		if len(files) == 0 {
			return nil, fmt.Errorf("%s has no licence", module)
		}
	}
	return found, nil
}

// add adds the licences of a package.
func (l licences) add(p pkg) error {
	module, top := "Go", ""
	switch {
	case p.Module == nil: // of Go: its licence is at the top
		root, err := exec.Command("go", "env", "GOROOT").Output()
		if err != nil {
			return err
		}
		top, p.Dir = strings.TrimSpace(string(root)), strings.TrimSpace(string(root))
	case strings.HasPrefix(p.Module.Path+"/", "github.com/rowlock/rowlock/"): // this repository, whose modules have one licence at its top
		module, top = "github.com/rowlock/rowlock", p.Module.Dir
		for !exists(filepath.Join(top, "LICENSE")) && filepath.Dir(top) != top {
			top = filepath.Dir(top)
		}
	default:
		module, top = p.Module.Path+" "+p.Module.Version, p.Module.Dir
	}
	files := l[module]
	for dir := p.Dir; strings.HasPrefix(dir, top); dir = filepath.Dir(dir) {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return err
		}
		for _, e := range entries {
			if file := filepath.Join(dir, e.Name()); !e.IsDir() && named.MatchString(e.Name()) && !strings.HasSuffix(e.Name(), ".go") && !slices.Contains(files, file) {
				files = append(files, file)
			}
		}
	}
	l[module] = files
	return nil
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

// print writes them all, in the order of the modules.
func (l licences) print(to io.Writer) error {
	var modules []string
	for m := range l {
		modules = append(modules, m)
	}
	slices.Sort(modules)
	fmt.Fprintf(to, "The program rowlock contains these:\n\n")
	for _, m := range modules {
		fmt.Fprintf(to, "  %s\n", m)
	}
	for _, m := range modules {
		slices.Sort(l[m])
		for _, file := range l[m] {
			text, err := os.ReadFile(file)
			if err != nil {
				return err
			}
			if _, err := fmt.Fprintf(to, "\n\n==== %s: %s\n\n%s", m, filepath.Base(file), text); err != nil {
				return err
			}
		}
	}
	return nil
}
