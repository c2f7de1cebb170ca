// Command release tries what a version of the modules would be to those who get it: it makes versions of all published
// modules, as they would be without their replace lines, in a module proxy in a folder, and builds and runs a program
// outside of the repository that gets them from there by version alone. It changes nothing in the repository.
//
//	release [-dirty] v0.1.0      in the root of the repository
package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

const rootModule = "github.com/rowlock/rowlock"

// published are the folders of the modules that users get. Those that are not there yet are left out.
var published = []string{".", "adapters/gocron", "adapters/cron", "adapters/otel", "adapters/prom", "cmd/rowlock"}

func main() {
	dirty := flag.Bool("dirty", false, "take the files as they are, also those with changes that are not committed")
	flag.Parse()
	if err := run(flag.Arg(0), *dirty); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(version string, dirty bool) error {
	if err := check(version, dirty); err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "release")
	if err != nil {
		return err
	}
	defer removeAll(work)
	var modules []module
	for _, folder := range published {
		if _, err := os.Stat(filepath.Join(folder, "go.mod")); err == nil {
			modules = append(modules, module{folder: folder, version: version})
		}
	}
	proxy := filepath.Join(work, "proxy")
	for _, m := range modules {
		fmt.Printf("== %s@%s\n", m.path(), version)
		if err := m.publish(proxy, filepath.Join(work, "go.mod")); err != nil {
			return fmt.Errorf("%s: %w", m.path(), err)
		}
	}
	if err := tryOutside(work, proxy, modules); err != nil {
		return err
	}
	fmt.Println("== it works. The version is made by:")
	for _, m := range modules[1:] {
		edit := "-require=" + rootModule + "@" + version
		fmt.Printf("   (cd %s && go mod edit -dropreplace=%s %s)   # in the commit that is tagged; a later one puts the line back\n", m.folder, rootModule, edit)
	}
	for _, m := range modules {
		fmt.Printf("   git tag %s\n", m.tag())
	}
	fmt.Println("   git push --tags")
	return nil
}

// check looks at what must be so before a version is made.
func check(version string, dirty bool) error {
	if !strings.HasPrefix(version, "v") || strings.Count(version, ".") != 2 {
		return fmt.Errorf("version %q: it looks like v0.1.0", version)
	}
	changes, err := os.ReadFile("CHANGELOG.md")
	if err != nil {
		return err
	}
	if !bytes.Contains(changes, []byte("\n## "+version)) {
		return fmt.Errorf("CHANGELOG.md has no section ## %s", version)
	}
	status, err := output("git", "status", "--porcelain")
	if err != nil {
		return err
	}
	if status != "" && !dirty {
		return fmt.Errorf("there are changes that are not committed (-dirty takes them as they are):\n%s", status)
	}
	if tags, err := output("git", "tag", "--list", version); err != nil {
		return err
	} else if tags != "" {
		return fmt.Errorf("the tag %s is there already", version)
	}
	return nil
}

func output(name string, args ...string) (string, error) {
	out, err := exec.Command(name, args...).Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w", name, strings.Join(args, " "), err)
	}
	return strings.TrimSpace(string(out)), nil
}

// removeAll removes a folder that has a module cache, whose folders are read-only.
func removeAll(folder string) {
	_ = filepath.WalkDir(folder, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			_ = os.Chmod(path, 0o700)
		}
		return nil
	})
	_ = os.RemoveAll(folder)
}
