package enginetest

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rowlock/rowlock"
)

const longHold = "a lease is held for long; if it was forgotten, release it, or set MaxHold"

// line is the file and line of the call of the caller, as a log line names it.
func line(after int) string {
	_, file, n, _ := runtime.Caller(1)
	return fmt.Sprintf("at=%s:%d", file, n+after)
}

// TestLongHold: a lease that nobody releases is renewed for ever. The log says once
// which line acquired it.
func TestLongHold(t *testing.T) {
	for name, tc := range map[string]struct {
		option time.Duration
		opts   []rowlock.Option
		after  time.Duration // about when the line comes; 0: never
	}{
		"by default":  {0, nil, time.Hour},
		"as set":      {5 * time.Minute, nil, 5 * time.Minute},
		"off":         {-1, nil, 0},
		"it ends":     {0, []rowlock.Option{rowlock.MaxHold(2 * time.Hour)}, 0},
		"not renewed": {0, []rowlock.Option{rowlock.NoRenew()}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx := context.Background()
				f, log := newFaultStore(), &logged{}
				c := newClient(t, f, rowlock.Options{Logger: slog.New(log), LongHold: tc.option})
				var took string
				for n, take := range []func(string) error{
					func(key string) (err error) {
						took = line(1)
						_, err = c.Acquire(ctx, key, tc.opts...)
						return err
					},
					func(key string) (err error) {
						took = line(1)
						_, err = c.TryAcquire(ctx, key, tc.opts...)
						return err
					},
					func(key string) error {
						started, done := make(chan struct{}), make(chan struct{})
						t.Cleanup(func() { close(done) })
						go func() {
							took = line(1)
							rowlock.Do(ctx, wrap{wrap{c}}, key, func(context.Context, *rowlock.Lease) error {
								close(started)
								<-done
								return nil
							}, tc.opts...)
						}()
						<-started
						return nil
					},
				} {
					key := fmt.Sprint("k", n)
					if err := take(key); err != nil {
						t.Fatal(err)
					}
					if tc.after > 0 {
						time.Sleep(tc.after - time.Second)
					}
					if lines := log.lines(longHold); len(lines) != n && tc.after > 0 {
						t.Fatalf("too early: %q", lines)
					}
					time.Sleep(3 * time.Hour)
					lines := log.lines(longHold)
					if tc.after == 0 {
						if len(lines) > 0 {
							t.Errorf("%q", lines)
						}
						continue
					}
					if len(lines) != n+1 || !strings.Contains(lines[n], "key="+key) || !strings.Contains(lines[n], took) || !strings.HasPrefix(lines[n], "INFO") {
						t.Errorf("%q, want one line more, which names %q and %s", lines, key, took)
					}
				}
			})
		})
	}
}

// TestLongHoldOfALeader: a leader holds for as long as it leads, and nobody forgot it.
func TestLongHoldOfALeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		log, ended := &logged{}, make(chan error)
		c := newClient(t, newFaultStore(), logTo(log))
		go func() {
			ended <- rowlock.Lead(ctx, c, "leader", func(ctx context.Context, _ *rowlock.Lease) error {
				<-ctx.Done()
				return nil
			})
		}()
		time.Sleep(3 * time.Hour)
		cancel()
		<-ended
		if n := len(log.lines(longHold)); n != 0 {
			t.Errorf("%d lines: %s", n, longHold)
		}
	})
}
