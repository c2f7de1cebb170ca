package testenv

import (
	"fmt"
	"hash/fnv"
	"os"
	"os/exec"
	"path/filepath"
)

// compiled is a library for servers to preload, made of one file of C in the cache when it is first asked for.
func compiled(name string, source []byte) (library string, err error) {
	hash := fnv.New32a()
	hash.Write(source)
	dir, err := once(fmt.Sprintf("%s-%08x", name, hash.Sum32()), func(dir string) error { return compile(dir, name, source) })
	return filepath.Join(dir, name+".so"), err
}

func compile(dir, name string, source []byte) error {
	gcc, err := exec.LookPath("gcc")
	if err != nil {
		return fmt.Errorf("this needs a C compiler: %w", err)
	}
	file := filepath.Join(dir, name+".c")
	if err := os.WriteFile(file, source, 0o644); err != nil {
		return err
	}
	// Without the C library of this machine: the server brings its own, maybe an older one.
	cmd := exec.Command(gcc, "-shared", "-fPIC", "-O2", "-nostdlib", "-o", filepath.Join(dir, name+".so"), file)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("gcc: %w\n%s", err, out)
	}
	return nil
}
