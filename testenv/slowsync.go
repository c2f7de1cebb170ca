package testenv

import (
	_ "embed"
	"fmt"
	"hash/fnv"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// slowSyncVariable asks for slow syncs; it holds a duration.
const slowSyncVariable = "ROWLOCK_TEST_SYNC"

//go:embed slowsync/slowsync.c
var slowSyncSource []byte

// SlowSync is how much longer each sync to disk of the servers started here takes at least, as ROWLOCK_TEST_SYNC asks
// ("2ms"): a fast disk then tells how things go on a slow one. Unset or 0, servers run as they are.
func SlowSync() (time.Duration, error) {
	text := os.Getenv(slowSyncVariable)
	if text == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return 0, fmt.Errorf("testenv: %s=%s: want a duration such as 2ms", slowSyncVariable, text)
	}
	return d, nil
}

// slowSyncLibrary is the library that a server must preload, or empty, and what it must find in its environment. It is
// compiled when first asked for.
func slowSyncLibrary() (library string, env []string, err error) {
	delay, err := SlowSync()
	if delay == 0 || err != nil {
		return "", nil, err
	}
	hash := fnv.New32a()
	hash.Write(slowSyncSource)
	dir, err := once(fmt.Sprintf("slowsync-%08x", hash.Sum32()), compileSlowSync)
	if err != nil {
		return "", nil, fmt.Errorf("%s=%v: %w", slowSyncVariable, delay, err)
	}
	library = filepath.Join(dir, "slowsync.so")
	return library, []string{"LD_PRELOAD=" + library, fmt.Sprintf("ROWLOCK_SLOW_SYNC_NS=%d", delay)}, nil
}

func compileSlowSync(dir string) error {
	gcc, err := exec.LookPath("gcc")
	if err != nil {
		return fmt.Errorf("slow syncs need a C compiler: %w", err)
	}
	source := filepath.Join(dir, "slowsync.c")
	if err := os.WriteFile(source, slowSyncSource, 0o644); err != nil {
		return err
	}
	// Without the C library of this machine: the server brings its own, maybe an older one.
	cmd := exec.Command(gcc, "-shared", "-fPIC", "-O2", "-nostdlib", "-o", filepath.Join(dir, "slowsync.so"), source)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("gcc: %w\n%s", err, out)
	}
	return nil
}
