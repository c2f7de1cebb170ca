package rowlockcli

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/memory"
)

// TestKeepGoing: a command is started again if it was ended with its lease, and nobody has told it to end.
func TestKeepGoing(t *testing.T) {
	lost := &ExitError{Code: exitLost, Err: errors.New("lost")}
	for _, c := range []struct {
		name string
		run  run
		err  error
		want bool
	}{
		{"cut off", run{f: runFlags{keepGoing: true}, cut: true}, lost, true},
		{"without --keep-going", run{cut: true}, lost, false},
		{"it ended by itself", run{f: runFlags{keepGoing: true}}, lost, false},
		{"it ended well", run{f: runFlags{keepGoing: true}}, nil, false},
		{"told to end before the loss", run{f: runFlags{keepGoing: true}, cut: true, toldToEnd: true}, lost, false},
	} {
		r := c.run
		r.app, r.keys, r.signals, r.f.ttl = &app{stderr: io.Discard}, []string{"k"}, make(chan os.Signal, 1), 60
		again, err := r.again(t.Context(), c.err)
		if again != c.want || !again && err != c.err {
			t.Errorf("%s: %t, %v", c.name, again, err)
		}
	}
}

// refusedFor is a database that refuses its user for a while.
type refusedFor struct {
	*memory.Store
	until time.Time
}

var errRefused = &driver.Error{Lasting: true, NotApplied: true, Err: errors.New("the server refused the user or password")}

func (s refusedFor) Acquire(ctx context.Context, reqs []driver.Request) ([]driver.Result, error) {
	if time.Now().Before(s.until) {
		return nil, errRefused
	}
	return s.Store.Acquire(ctx, reqs)
}

// TestKeepGoingAfterARefusal: after a loss --keep-going waits until a password is right again, and says so once a minute. At the start,
// and where --wait is over, the refusal is the error.
func TestKeepGoingAfterARefusal(t *testing.T) {
	for name, c := range map[string]struct {
		cutOff error
		wait   time.Duration
		want   error
	}{
		"after a loss":      {errors.New("lost"), time.Hour, nil},
		"no longer than -w": {errors.New("lost"), time.Minute, context.DeadlineExceeded},
		"at the start":      {nil, time.Hour, errRefused},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				locks, err := rowlock.New(refusedFor{memory.New(), time.Now().Add(5 * time.Minute)}, rowlock.Options{ReapInterval: -1})
				if err != nil {
					t.Fatal(err)
				}
				defer locks.Close(context.Background())
				var said bytes.Buffer
				r := run{app: &app{stderr: &said}, f: runFlags{keepGoing: true}, keys: []string{"k"}, locks: locks, cutOff: c.cutOff}
				ctx, cancel := context.WithTimeout(t.Context(), c.wait)
				defer cancel()
				began := time.Now()
				got, err := r.takeAgain(ctx, nil)
				if c.want == nil && (err != nil || got == nil || time.Since(began) > 6*time.Minute) || !errors.Is(err, c.want) {
					t.Errorf("after %v: %v, want %v", time.Since(began), err, c.want)
				}
				if n := strings.Count(said.String(), "refused the user or password"); c.cutOff != nil && (n < 1 || n > 6) || c.cutOff == nil && n > 0 {
					t.Errorf("%d lines: %s", n, said.String())
				}
			})
		})
	}
}
