package testenv

import (
	"bytes"
	"context"
	_ "embed"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"syscall"
	"time"
)

//go:embed provision.sh
var provisionScript []byte

// cacheDir is where server programs and template data folders are kept; it is created.
func cacheDir() (string, error) {
	dir := os.Getenv("ROWLOCK_TEST_CACHE")
	if dir == "" {
		user, err := os.UserCacheDir()
		if err != nil {
			return "", fmt.Errorf("no cache folder: %w; set ROWLOCK_TEST_CACHE", err)
		}
		dir = filepath.Join(user, "rowlock-testenv")
	}
	dir, err := filepath.Abs(dir) // mysqld takes a relative data folder relative to its program's
	if err != nil {
		return "", err
	}
	return dir, os.MkdirAll(dir, 0o755)
}

// Provision fetches the server programs of these kinds into the cache, those that are there excepted. It first says on
// log what it fetches and how much. Several processes may do it at once.
func Provision(ctx context.Context, log io.Writer, kinds ...Kind) error {
	products := make([]string, len(kinds))
	for i, k := range kinds {
		products[i] = k.product()
	}
	return provision(ctx, log, products...)
}

// provision fetches programs by the names of their folders in the cache.
func provision(ctx context.Context, log io.Writer, products ...string) error {
	if err := canProvision(); err != nil {
		return err
	}
	cache, err := cacheDir()
	if err != nil {
		return err
	}
	unlock, err := lockCache(cache)
	if err != nil {
		return err
	}
	defer unlock()
	cmd := exec.CommandContext(ctx, "bash", append([]string{"-s", "--", cache}, products...)...)
	cmd.Stdin = bytes.NewReader(provisionScript)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) } // it removes what it has begun
	cmd.WaitDelay = 5 * time.Second
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("fetch packages: %w", err)
	}
	return nil
}

// lockCache makes this process the only one that changes the cache, and removes what a killed one left half done.
func lockCache(cache string) (unlock func(), err error) {
	unlock, err = lockFile(filepath.Join(cache, "lock"))
	if err != nil {
		return nil, err
	}
	left, _ := filepath.Glob(filepath.Join(cache, ".work.*"))
	for _, dir := range left {
		_ = os.RemoveAll(dir)
	}
	return unlock, nil
}

// canProvision reports whether this is a machine the script is for.
func canProvision() error {
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		return fmt.Errorf("%w: packages are for Debian on x86_64", ErrUnavailable)
	}
	if system, _ := os.ReadFile("/etc/os-release"); !regexp.MustCompile(`(?m)^ID="?debian"?$`).Match(system) {
		return fmt.Errorf("%w: packages are for Debian", ErrUnavailable)
	}
	for _, tool := range []string{"bash", "apt-get", "dpkg-deb"} {
		if _, err := exec.LookPath(tool); err != nil {
			return fmt.Errorf("%w: packages are for Debian, and %s is not here", ErrUnavailable, tool)
		}
	}
	return nil
}

// once makes the folder cache/name with build, unless it is there. build gets an empty folder beside it, which becomes
// the wanted one by rename: nobody sees it half done.
func once(name string, build func(dir string) error) (string, error) {
	cache, err := cacheDir()
	if err != nil {
		return "", err
	}
	want := filepath.Join(cache, name)
	if _, err := os.Stat(want); err == nil {
		return want, nil
	}
	unlock, err := lockCache(cache)
	if err != nil {
		return "", err
	}
	defer unlock()
	if _, err := os.Stat(want); err == nil {
		return want, nil // somebody else was faster
	}
	work, err := os.MkdirTemp(cache, ".work.")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(work)
	if err := build(work); err != nil {
		return "", err
	}
	return want, os.Rename(work, want)
}
