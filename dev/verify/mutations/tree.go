package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// tree is a copy of the repository, in which the bugs are.
type tree struct {
	from string // the repository
	dir  string
}

// copyTree copies what git knows of the repository, and what is new in it.
func copyTree(ctx context.Context, from, to string) (*tree, error) {
	t := &tree{from: from, dir: to}
	list := exec.CommandContext(ctx, "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	list.Dir = from
	names, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("the files of %s: %w", from, err)
	}
	for name := range strings.SplitSeq(strings.TrimSuffix(string(names), "\x00"), "\x00") {
		if err := t.copy(name); err != nil && !os.IsNotExist(err) { // one that is deleted
			return nil, err
		}
	}
	return t, nil
}

func (t *tree) copy(name string) error {
	in, err := os.Open(filepath.Join(t.from, name))
	if err != nil {
		return err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil || info.IsDir() {
		return err
	}
	target := filepath.Join(t.dir, name)
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		return err
	}
	out, err := os.OpenFile(target, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, info.Mode().Perm())
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	if closed := out.Close(); err == nil {
		err = closed
	}
	return err
}

// apply puts the bug into the copy.
func (t *tree) apply(ctx context.Context, m *mutation, how ...string) error {
	cmd := exec.CommandContext(ctx, "git", append(append([]string{"apply"}, how...), m.file)...)
	cmd.Dir = t.dir
	// Not as a part of a repository that the folder may be in.
	cmd.Env = append(os.Environ(), "GIT_CEILING_DIRECTORIES="+filepath.Dir(t.dir))
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("it does not apply: %s", strings.TrimSpace(string(text)))
	}
	return nil
}

// restore takes the bug out again.
func (t *tree) restore(m *mutation) error {
	for _, path := range m.paths {
		if err := t.copy(path); err != nil {
			return err
		}
	}
	return nil
}

// packages are the folders of the Go files that the bug is in, as go names them.
func (m *mutation) packages() (dirs []string) {
	seen := make(map[string]bool)
	for _, path := range m.paths {
		dir := "./" + filepath.ToSlash(filepath.Dir(path))
		if strings.HasSuffix(path, ".go") && !seen[dir] {
			seen[dir] = true
			dirs = append(dirs, dir)
		}
	}
	return dirs
}
