package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"maps"
	"path/filepath"
	"runtime"
	"slices"
)

// checker looks whether code compiles, as the compiler does before it writes code: it
// parses it and checks its types. Packages and files without a bug are looked at once. It
// is for one goroutine.
type checker struct {
	*sources
	set    *token.FileSet
	others types.Importer
	parsed map[string]*ast.File      // files as they are
	plain  map[string]*types.Package // packages as they are, without the bodies of functions
}

func newChecker(s *sources) *checker {
	set := token.NewFileSet()
	return &checker{sources: s, set: set, others: s.elsewhere(set), parsed: make(map[string]*ast.File), plain: make(map[string]*types.Package)}
}

// check gives the first error of the packages that have changes, and of their tests. For
// each package, those that its tests import are made of it with the changes and with its
// test files, as go test does.
func (c *checker) check(files changes) error {
	var dirs []string
	for file := range files {
		if filepath.Ext(file) != ".go" {
			continue
		}
		dir, name := filepath.Split(file)
		dir = filepath.Clean(dir)
		if !slices.ContainsFunc(slices.Collect(maps.Values(c.packages)), func(p *listed) bool { return p.Dir == dir && slices.Contains(p.GoFiles, name) }) {
			return fmt.Errorf("%s is in no package on this system", name)
		}
		if !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
	}
	for _, path := range slices.Sorted(maps.Keys(c.packages)) {
		p := c.packages[path]
		if !slices.Contains(dirs, p.Dir) {
			continue
		}
		u := &universe{checker: c, files: files, dirs: dirs, tested: path, made: make(map[string]*types.Package)}
		if _, err := u.Import(path); err != nil {
			return err
		}
		if len(p.XTestGoFiles) > 0 {
			if _, err := u.compile(path+"_test", p.Dir, p.XTestGoFiles, true); err != nil {
				return err
			}
		}
	}
	return nil
}

// universe are the packages that the test program of one package is made of.
type universe struct {
	*checker
	files  changes
	dirs   []string // that have changes
	tested string   // the package
	made   map[string]*types.Package
}

// Import gives a package for one that imports it.
func (u *universe) Import(path string) (*types.Package, error) {
	p := u.packages[path]
	if p == nil {
		return u.others.Import(path)
	}
	to := u.made
	if !u.depends(p, make(map[string]bool)) {
		to = u.plain
	}
	if done := to[path]; done != nil {
		return done, nil
	}
	names := p.GoFiles
	if path == u.tested {
		names = slices.Concat(names, p.TestGoFiles)
	}
	done, err := u.compile(path, p.Dir, names, path == u.tested)
	if err != nil {
		return nil, err
	}
	to[path] = done
	return done, nil
}

// depends reports whether a package is another here than it is without the bug: it is
// the one under test, has changes, or imports one that is another.
func (u *universe) depends(p *listed, seen map[string]bool) bool {
	if p.ImportPath == u.tested || slices.Contains(u.dirs, p.Dir) {
		return true
	}
	if seen[p.ImportPath] {
		return false
	}
	seen[p.ImportPath] = true
	return slices.ContainsFunc(p.Imports, func(path string) bool { return u.packages[path] != nil && u.depends(u.packages[path], seen) })
}

// compile checks a package of these files: all of it, or without the bodies of functions.
func (u *universe) compile(path, dir string, names []string, bodies bool) (*types.Package, error) {
	var files []*ast.File
	for _, name := range names {
		file, err := u.parse(filepath.Join(dir, name))
		if err != nil {
			return nil, err
		}
		files = append(files, file)
	}
	config := types.Config{Importer: u, IgnoreFuncBodies: !bodies, GoVersion: u.language, Sizes: types.SizesFor("gc", runtime.GOARCH)}
	return config.Check(path, u.set, files, nil)
}

func (u *universe) parse(name string) (*ast.File, error) {
	const mode = parser.SkipObjectResolution
	if text, changed := u.files[name]; changed {
		return parser.ParseFile(u.set, name, text, mode)
	}
	if file := u.parsed[name]; file != nil {
		return file, nil
	}
	file, err := parser.ParseFile(u.set, name, nil, mode)
	if err == nil {
		u.parsed[name] = file
	}
	return file, err
}
