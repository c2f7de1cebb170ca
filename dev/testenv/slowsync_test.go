package testenv_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rowlock/rowlock/dev/testenv"
	"github.com/rowlock/rowlock/internal/testserver"
)

// TestSlowSync: no commit takes less than the sync that it waits for, and many share one.
func TestSlowSync(t *testing.T) {
	testserver.Long(t)
	const delay, commits, clients = 20 * time.Millisecond, 5, 32
	t.Setenv("ROWLOCK_TEST_SYNC", delay.String())
	for _, kind := range []testenv.Kind{testenv.MySQL, testenv.MariaDB, testenv.Mongo} {
		t.Run(string(kind), func(t *testing.T) {
			s, err := testenv.Start(t.Context(), kind)
			if err != nil && strings.Contains(err.Error(), "is for local servers") {
				t.Skip(err)
			}
			must(t, "start", err)
			t.Cleanup(func() { must(t, "close", s.Close()) })
			c := connect(t, s)
			must(t, "first insert", c.insert("first"))

			begin := time.Now()
			for i := range commits {
				must(t, "insert", c.insert(fmt.Sprint(i)))
			}
			if took := time.Since(begin); took < commits*delay {
				t.Errorf("%d commits took %v, though each waits for a sync of %v", commits, took, delay)
			} else {
				t.Logf("one commit after the other: %v each", took/commits)
			}

			var all sync.WaitGroup
			begin = time.Now()
			for k := range clients {
				all.Go(func() {
					for i := range commits {
						if err := c.insert(fmt.Sprint(k, "-", i)); err != nil {
							t.Error(err)
						}
					}
				})
			}
			all.Wait()
			if took := time.Since(begin); took > clients*commits*delay {
				t.Errorf("%d commits of %d clients took %v: they do not share syncs", clients*commits, clients, took)
			} else {
				t.Logf("%d clients: %v a commit", clients, took/clients/commits)
			}
		})
	}
}

// TestSlowSyncNeedsACompiler: without one the error says so, and no other way is tried.
func TestSlowSyncNeedsACompiler(t *testing.T) {
	cache := t.TempDir()
	t.Setenv("ROWLOCK_TEST_MODE", "local")
	t.Setenv("ROWLOCK_TEST_CACHE", cache)
	t.Setenv("PATH", t.TempDir())
	t.Setenv("ROWLOCK_TEST_SYNC", "1ms")
	// The least that is taken for a MongoDB: a loader, and a program.
	for name, text := range map[string]string{
		"lib/x-linux-gnu/ld-linux-x.so.2": "#!/bin/sh\necho db version v6.0.5\n", "usr/bin/mongod": "",
	} {
		file := filepath.Join(cache, "mongo", name)
		must(t, "cache", errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(text), 0o755)))
	}
	_, err := testenv.Start(t.Context(), testenv.Mongo)
	if err == nil || errors.Is(err, testenv.ErrUnavailable) || !strings.Contains(err.Error(), "gcc") {
		t.Errorf("started without gcc: %v", err)
	}
}

// TestBadSlowSync: a typing mistake is not taken for fast syncs.
func TestBadSlowSync(t *testing.T) {
	t.Setenv("ROWLOCK_TEST_SYNC", "2")
	if _, err := testenv.Start(t.Context(), testenv.Mongo); err == nil || !strings.Contains(err.Error(), "ROWLOCK_TEST_SYNC=2") {
		t.Errorf("ROWLOCK_TEST_SYNC=2: %v", err)
	}
}
