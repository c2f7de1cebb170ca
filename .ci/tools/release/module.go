package main

import (
	"archive/zip"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// module is one that users get.
type module struct{ folder, version string }

func (m module) path() string {
	if m.folder == "." {
		return rootModule
	}
	return rootModule + "/" + m.folder
}

// tag is the version's name in the repository: https://go.dev/ref/mod#vcs-version.
func (m module) tag() string {
	if m.folder == "." {
		return m.version
	}
	return m.folder + "/" + m.version
}

// publish writes the module into a proxy that is a folder: https://go.dev/ref/mod#goproxy-protocol. scratch is a file
// for its go.mod.
func (m module) publish(proxy, scratch string) error {
	folder := filepath.Join(proxy, filepath.FromSlash(m.path()), "@v")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	mod, err := m.goMod(scratch)
	if err != nil {
		return err
	}
	info, err := json.Marshal(map[string]any{"Version": m.version, "Time": time.Now().UTC()})
	if err != nil {
		return err
	}
	for name, text := range map[string][]byte{"list": []byte(m.version + "\n"), m.version + ".mod": mod, m.version + ".info": info} {
		if err := os.WriteFile(filepath.Join(folder, name), text, 0o644); err != nil {
			return err
		}
	}
	archive, err := os.Create(filepath.Join(folder, m.version+".zip"))
	if err != nil {
		return err
	}
	defer archive.Close()
	if err := m.zip(archive, mod); err != nil {
		return err
	}
	return archive.Close()
}

// goMod is the module's go.mod as it is published: the root module by its version, not from the folder above.
func (m module) goMod(scratch string) ([]byte, error) {
	text, err := os.ReadFile(filepath.Join(m.folder, "go.mod"))
	if err != nil || m.folder == "." {
		return text, err
	}
	if err := os.WriteFile(scratch, text, 0o644); err != nil {
		return nil, err
	}
	edit := exec.Command("go", "mod", "edit", "-dropreplace="+rootModule, "-require="+rootModule+"@"+m.version, scratch)
	if out, err := edit.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("go mod edit: %w: %s", err, out)
	}
	if text, err = os.ReadFile(scratch); err == nil && strings.Contains(string(text), "replace ") {
		err = fmt.Errorf("go.mod has a replace line, which users' builds do not see:\n%s", text)
	}
	return text, err
}

// zip writes the module's files, which are those of its folder that git knows and that are in no module below:
// https://go.dev/ref/mod#zip-files.
func (m module) zip(w io.Writer, mod []byte) error {
	listed, err := output("git", "ls-files", "--cached", "--others", "--exclude-standard", "--", m.folder)
	if err != nil {
		return err
	}
	z := zip.NewWriter(w)
	licensed := false
	for _, name := range strings.Split(listed, "\n") {
		file := filepath.FromSlash(name)
		if info, err := os.Lstat(file); err != nil || !info.Mode().IsRegular() || below(m.folder, file) {
			continue // deleted, a link, or another module's
		}
		inside, err := filepath.Rel(m.folder, file)
		if err != nil {
			return err
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if inside == "go.mod" {
			text = mod
		}
		licensed = licensed || inside == "LICENSE"
		if err := add(z, m.path()+"@"+m.version+"/"+filepath.ToSlash(inside), text); err != nil {
			return err
		}
	}
	if !licensed { // go does the same for a module in a folder of a repository
		license, err := os.ReadFile("LICENSE")
		if err != nil {
			return err
		}
		if err := add(z, m.path()+"@"+m.version+"/LICENSE", license); err != nil {
			return err
		}
	}
	return z.Close()
}

func add(z *zip.Writer, name string, text []byte) error {
	f, err := z.Create(name)
	if err == nil {
		_, err = f.Write(text)
	}
	return err
}

// below reports whether a file of a module's folder is in another module, whose folder is below.
func below(folder, file string) bool {
	for dir := filepath.Dir(file); dir != folder && dir != "."; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return true
		}
	}
	return false
}
