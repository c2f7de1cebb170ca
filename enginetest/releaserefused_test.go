package enginetest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/driver"
)

// errDenied is a refusal that lasts and proves that nothing was done.
var errDenied = &driver.Error{Lasting: true, NotApplied: true, Err: errors.New("DELETE command denied")}

const refusal = "the database refuses to release a hold; its key stays taken until its TTL ends"

// TestReleaseIsRefused: a release that the database refuses for good is called that,
// once, and tried again now and then: somebody may grant the privilege meanwhile.
func TestReleaseIsRefused(t *testing.T) {
	for name, err := range map[string]error{
		"denied":       errDenied,
		"store closed": &driver.Error{Lasting: true, NotApplied: true, Err: rowlock.ErrClosed},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, log := newFaultStore(), &logged{}
				c := newClient(t, f, rowlock.Options{Logger: slog.New(log)})
				l, forgiven := acquire(t, c, "k"), acquire(t, c, "forgiven", rowlock.TTL(time.Hour))
				f.set(on("release", verdict{err: err}))
				for _, l := range []*rowlock.Lease{l, forgiven} {
					if err := l.Release(context.Background()); err != nil {
						t.Errorf("Release = %v", err)
					}
				}
				time.Sleep(2 * time.Minute) // when the TTL of k, and that of a late attempt, are over
				for _, key := range []string{"k", "forgiven"} {
					if lines := log.lines(refusal); len(lines) != 2 || !strings.Contains(fmt.Sprint(lines), "key="+key) || !strings.Contains(fmt.Sprint(lines), err.Error()) {
						t.Errorf("%q: logged %q, want a line for each key, with the cause", key, lines)
					}
				}
				if n := log.count(); n != 2 {
					t.Errorf("%d lines, want 2", n)
				}
				if n := len(f.seen("release")); n > 2+2*120/5 {
					t.Errorf("%d releases were sent in two minutes", n)
				}
				if s := c.Stats(); s.Unresolved != 1 || s.LateReleases != 0 {
					t.Errorf("stats %+v, want one hold that is not undone: the other's TTL is long over", s)
				}
				f.set(nil)
				time.Sleep(6 * time.Second)
				free(t, f, "forgiven")
				if s := c.Stats(); s.Unresolved != 0 {
					t.Errorf("stats %+v", s)
				}
			})
		})
	}
}

// TestP12_CloseMeetsARefusal: Close names what the database refuses at once: waiting
// would not free it.
func TestP12_CloseMeetsARefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaultStore()
		c := cutShort(t, f)
		for i := range 5 {
			acquire(t, c, fmt.Sprint("held", i))
		}
		f.set(on("release", verdict{err: errDenied}))
		acquire(t, c, "released").Release(context.Background())
		start := time.Now()
		err := c.Close(context.Background())
		if took := time.Since(start); took > time.Second {
			t.Errorf("P12: Close took %v", took)
		}
		if !errors.Is(err, errDenied) || !strings.Contains(fmt.Sprint(err), `"held0"`) || !strings.Contains(fmt.Sprint(err), `"released"`) {
			t.Errorf("P12: Close = %v, want the refusal, and the keys that stay taken", err)
		}
	})
}

// TestP12_CloseSaysWhy: also where the next try might have fared better.
func TestP12_CloseSaysWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaultStore()
		c := cutShort(t, f)
		full := &driver.Error{NotApplied: true, Err: errors.New("too many connections")}
		f.set(on("release", verdict{err: full}))
		acquire(t, c, "released").Release(context.Background())
		acquire(t, c, "held")
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		err := c.Close(ctx)
		if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, full) || !strings.Contains(fmt.Sprint(err), `"held", "released"`) {
			t.Errorf("P12: Close = %v, want its ctx's error, the cause, and the keys that stay taken", err)
		}
	})
}

// TestP12_CloseSaysThatAnAttemptMayArrive: nobody knows of it, and what was asked of the database was answered.
func TestP12_CloseSaysThatAnAttemptMayArrive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaultStore()
		c := cutShort(t, f)
		f.set(on("acquire", verdict{err: errors.New("broken pipe")}))
		if _, err := c.TryAcquire(context.Background(), "k"); err == nil {
			t.Fatal("no error")
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		err := c.Close(ctx)
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(fmt.Sprint(err), "may still arrive") {
			t.Errorf("P12: Close = %v, want its ctx's error, and that an attempt may still arrive", err)
		}
	})
}

// TestP6_ARefusedUndo: the attempt whose outcome is unknown may hold the key, and its
// undo is refused.
func TestP6_ARefusedUndo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, log := newFaultStore(), &logged{}
		c := newClient(t, f, rowlock.Options{Logger: slog.New(log)})
		f.set(func(c call) verdict {
			if c.op == "release" {
				return verdict{err: errDenied}
			}
			return verdict{err: errors.New("broken pipe"), apply: c.op == "acquire"}
		})
		if _, err := c.TryAcquire(context.Background(), "k"); err == nil {
			t.Fatal("no error")
		}
		time.Sleep(10 * time.Second)
		if lines := log.lines(refusal); len(lines) != 1 {
			t.Errorf("logged %q", lines)
		}
		f.set(nil)
		time.Sleep(6 * time.Second)
		free(t, f, "k")
	})
}
