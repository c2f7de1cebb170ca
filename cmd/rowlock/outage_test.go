package main

import (
	"context"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/internal/testserver"
)

// wire leads connections to an address, until it is cut.
type wire struct {
	listener net.Listener
	mu       sync.Mutex
	open     []net.Conn
	over     bool
}

func newWire(t testing.TB, to string) *wire {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	w := &wire{listener: listener}
	t.Cleanup(w.cut)
	go func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", to)
			if err != nil {
				_ = near.Close()
				continue
			}
			w.mu.Lock()
			if w.over {
				_, _ = near.Close(), far.Close()
			}
			w.open = append(w.open, near, far)
			w.mu.Unlock()
			go func() { _, _ = io.Copy(near, far); _ = near.Close() }()
			go func() { _, _ = io.Copy(far, near); _ = far.Close() }()
		}
	}()
	return w
}

func (w *wire) cut() {
	_ = w.listener.Close()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.over = true
	for _, c := range w.open {
		_ = c.Close()
	}
}

// through is the address of a database by a wire.
func through(t testing.TB, kind, address string) (string, *wire) {
	t.Helper()
	if kind != testserver.Mongo {
		config, err := mysql.ParseDSN(testserver.DSN(t, kind))
		must(t, err)
		w := newWire(t, config.Addr)
		return strings.Replace(address, config.Addr, w.listener.Addr().String(), 1), w
	}
	rest := strings.TrimPrefix(address, "mongodb://")
	host := rest[:strings.IndexByte(rest, '/')]
	w := newWire(t, host)
	before, _, _ := strings.Cut(address, "?")
	return strings.Replace(before, host, w.listener.Addr().String(), 1) + "?directConnection=true", w
}

// TestOutageWhileWaiting: a run that waits for a key waits an outage out for as long as -w says. With -x its end is not that another
// has the key, which is what the database said last, but that the database does not answer.
func TestOutageWhileWaiting(t *testing.T) {
	t.Parallel()
	for _, kind := range testserver.Some(t, kinds...) {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			address := database(t, kind)
			store := open(t, address)
			must(t, store.Migrate(t.Context()))
			locks, err := rowlock.New(store, rowlock.Options{})
			must(t, err)
			t.Cleanup(func() { _ = locks.Close(context.Background()) })
			_, err = locks.TryAcquire(t.Context(), "k")
			must(t, err)
			by, w := through(t, kind, address)
			cmd := rowlockRun(by, "-x", "-w", "10s", "k", "--", "echo", "ran")
			cmd.Env = append(cmd.Env, "ROWLOCK_TIMEOUT=1s")
			var out strings.Builder
			cmd.Stdout, cmd.Stderr = &out, &out
			must(t, cmd.Start())
			eventually(t, "it waits", func() bool {
				infos, err := store.Inspect(t.Context(), []string{"k"})
				must(t, err)
				return infos[0].Waiting > 0
			})
			w.cut()
			cut := time.Now()
			_ = cmd.Wait()
			if code := cmd.ProcessState.ExitCode(); code != 69 || strings.Contains(out.String(), "ran") {
				t.Errorf("exit code %d after %v, want 69\n%s", code, time.Since(cut), out.String())
			}
			t.Logf("%s", out.String())
		})
	}
}
