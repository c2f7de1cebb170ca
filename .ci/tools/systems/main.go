// Command systems looks whether the packages of the module in the current folder, and their tests, compile for other
// systems. It parses them and checks their types, as the compiler does before it writes code. What they import from
// other modules is taken as it is, without the bodies of its functions.
//
//	systems darwin/arm64 windows/amd64
package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"
)

func main() {
	bad := 0
	for _, system := range os.Args[1:] {
		n, err := check(".", system)
		if err != nil {
			fmt.Fprintf(os.Stderr, "systems: %s: %v\n", system, err)
			bad++
		}
		bad += n
	}
	if bad > 0 || len(os.Args) < 2 {
		os.Exit(1)
	}
}

// check prints the errors of the packages below dir on a system, and counts them.
func check(dir, system string) (errors int, err error) {
	name, arch, found := strings.Cut(system, "/")
	if !found {
		return 0, fmt.Errorf("a system is named as in darwin/arm64")
	}
	const mode = packages.NeedName | packages.NeedFiles | packages.NeedCompiledGoFiles | packages.NeedImports | packages.NeedDeps |
		packages.NeedModule | packages.NeedSyntax | packages.NeedTypes | packages.NeedTypesSizes
	dir, err = filepath.Abs(dir)
	if err != nil {
		return 0, err
	}
	loaded, err := packages.Load(&packages.Config{
		Mode: mode, Dir: dir, Tests: true, Env: append(os.Environ(), "GOOS="+name, "GOARCH="+arch, "CGO_ENABLED=0"),
		ParseFile: func(set *token.FileSet, file string, text []byte) (*ast.File, error) {
			f, err := parser.ParseFile(set, file, text, parser.SkipObjectResolution)
			ours := strings.HasPrefix(file, dir+string(filepath.Separator)) || filepath.Ext(file) != ".go" // or the main of a test
			if f != nil && !ours {
				dropBodies(f)
			}
			return f, err
		},
	}, "./...")
	if err != nil {
		return 0, err
	}
	if len(loaded) == 0 {
		return 0, fmt.Errorf("no packages in %s", dir)
	}
	packages.Visit(loaded, nil, func(p *packages.Package) {
		for _, e := range p.Errors {
			if e.Kind == packages.TypeError && (p.Module == nil || !p.Module.Main) {
				continue // of imports that only bodies use
			}
			fmt.Fprintf(os.Stderr, "%s: %v\n", system, e)
			errors++
		}
	})
	return errors, nil
}

// dropBodies takes the bodies of functions out of a file.
func dropBodies(f *ast.File) {
	f.Decls = slices.DeleteFunc(f.Decls, func(d ast.Decl) bool {
		fn, is := d.(*ast.FuncDecl)
		if is {
			fn.Body = nil
		}
		return is && fn.Recv == nil && fn.Name.Name == "init" // must have one
	})
}
