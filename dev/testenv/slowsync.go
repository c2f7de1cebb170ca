package testenv

import (
	_ "embed"
	"fmt"
	"os"
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
	if library, err = compiled("slowsync", slowSyncSource); err != nil {
		return "", nil, fmt.Errorf("%s=%v: %w", slowSyncVariable, delay, err)
	}
	return library, []string{fmt.Sprintf("ROWLOCK_SLOW_SYNC_NS=%d", delay)}, nil
}
