package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// listed is a package of the copy's module as go list shows it.
type listed struct {
	ImportPath, Dir                    string
	GoFiles, TestGoFiles, XTestGoFiles []string
	Imports, TestImports, XTestImports []string
}

// sources are the packages of the copy's module, and what the compiler knows of those
// that they import from elsewhere.
type sources struct {
	packages map[string]*listed // by import path
	exports  map[string]string  // by import path: the files in which the compiler finds the types of the others
	language string             // of go.mod, such as go1.25
}

// list asks go for the packages of the copy, and compiles what they import from elsewhere.
func (t *tree) list(ctx context.Context) (*sources, error) {
	s := &sources{packages: make(map[string]*listed), exports: make(map[string]string)}
	out, err := t.goOutput(ctx, "list", "-m", "-f", "go{{.GoVersion}}")
	if err != nil {
		return nil, err
	}
	s.language = strings.TrimSpace(string(out))
	if out, err = t.goOutput(ctx, "list", "-json=ImportPath,Dir,GoFiles,TestGoFiles,XTestGoFiles,Imports,TestImports,XTestImports", "./..."); err != nil {
		return nil, err
	}
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		p := new(listed)
		if err := d.Decode(p); err == io.EOF {
			break
		} else if err != nil {
			return nil, err
		}
		s.packages[p.ImportPath] = p
	}
	others := []string{"list", "-export", "-f", "{{.ImportPath}} {{.Export}}"}
	for _, p := range s.packages {
		for _, path := range slices.Concat(p.Imports, p.TestImports, p.XTestImports) {
			if s.packages[path] == nil && !slices.Contains(others, path) && path != "unsafe" {
				others = append(others, path)
			}
		}
	}
	if len(others) == 4 {
		return s, nil
	}
	if out, err = t.goOutput(ctx, others...); err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(out)) {
		path, file, _ := strings.Cut(strings.TrimSpace(line), " ")
		s.exports[path] = file
	}
	return s, nil
}

// goOutput runs go in the copy and returns what it says.
func (t *tree) goOutput(ctx context.Context, args ...string) ([]byte, error) {
	cmd := t.goCommand(ctx, args...)
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go %s: %w: %s", args[0], err, firstLine(complaints.String()))
	}
	return out, nil
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return line
}

// elsewhere imports packages of other modules.
func (s *sources) elsewhere(files *token.FileSet) types.Importer {
	return importer.ForCompiler(files, "gc", func(path string) (io.ReadCloser, error) {
		file := s.exports[path]
		if file == "" {
			return nil, fmt.Errorf("%s: no package of the module, and none that it imports", path)
		}
		return os.Open(file)
	})
}

// changes are the texts of files with a bug in them, by their names in the copy.
type changes map[string][]byte

// changed puts a bug into the copy, reads the files that it changes, and takes it out.
func (t *tree) changed(ctx context.Context, m *mutation) (files changes, err error) {
	defer func() {
		if e := t.restore(m); err == nil {
			err = e
		}
	}()
	if err := t.apply(ctx, m); err != nil {
		return nil, err
	}
	root, err := filepath.EvalSymlinks(t.dir) // as go list names it
	if err != nil {
		return nil, err
	}
	files = make(changes)
	for _, path := range m.paths {
		file := filepath.Join(root, filepath.FromSlash(path))
		if files[file], err = os.ReadFile(file); err != nil {
			return nil, err
		}
	}
	return files, nil
}
