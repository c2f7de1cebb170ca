package gocronlock_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rowlock/rowlock"
	gocronlock "github.com/rowlock/rowlock/adapters/gocron"
	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/locktest"
	"github.com/rowlock/rowlock/memory"
)

// refuse has a database refuse its user.
func refuse(f *locktest.Fault) {
	for _, op := range []locktest.Op{locktest.OpAcquire, locktest.OpRenew, locktest.OpLook} {
		f.On(op, func(context.Context, *locktest.Call, locktest.Send) ([]driver.Result, error) {
			return nil, &driver.Error{Lasting: true, NotApplied: true, Err: errors.New("the server refused the user or password")}
		})
	}
}

// TestElectorAfterARefusal: three processes, whose Run nobody looks at, and a password that is rotated: then one leads again, and the log
// has a line of each. A process that begins meanwhile has an error at once.
func TestElectorAfterARefusal(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const ttl = 3 * time.Second
		store := locktest.NewFault(memory.New()) // of all programs
		client := func(log *bytes.Buffer) *rowlock.Client {
			c, err := rowlock.New(store, rowlock.Options{TTL: ttl, ReapInterval: -1, Logger: slog.New(slog.NewTextHandler(log, nil))})
			must(t, err)
			t.Cleanup(func() { _ = c.Close(context.Background()) })
			return c
		}
		var logs [3]bytes.Buffer
		var electors []*gocronlock.Elector
		for i := range logs {
			e := gocronlock.NewElector(client(&logs[i]), "scheduler")
			electors = append(electors, e)
			elect(t, e)
		}
		leaders := func() (n int) {
			for _, e := range electors {
				if e.IsLeader(t.Context()) == nil {
					n++
				}
			}
			return n
		}
		time.Sleep(10 * time.Second)
		if n := leaders(); n != 1 {
			t.Fatalf("%d leaders", n)
		}
		refuse(store)
		time.Sleep(5 * time.Second)
		if n := leaders(); n != 0 {
			t.Errorf("%d leaders while the database refuses them", n)
		}
		late := gocronlock.NewElector(client(new(bytes.Buffer)), "scheduler")
		if err := late.Run(t.Context()); err == nil || !errors.Is(late.IsLeader(t.Context()), err) {
			t.Errorf("at a first use Run = %v, IsLeader = %v", err, late.IsLeader(t.Context()))
		}
		store.Clear()
		time.Sleep(2 * ttl)
		if n := leaders(); n != 1 {
			t.Errorf("P24: %d leaders two TTLs after the password is right again: %v", n, electors[0].IsLeader(t.Context()))
		}
		synctest.Wait()
		for i := range logs {
			if text := logs[i].String(); !strings.Contains(text, "level=ERROR") || !strings.Contains(text, "key=scheduler") {
				t.Errorf("process %d says %q", i, text)
			}
		}
	})
}

// TestLockerAfterARefusal: each run is a try of its own, so the first one after a refusal finds its lock.
func TestLockerAfterARefusal(t *testing.T) {
	t.Parallel()
	store := locktest.NewFault(memory.New())
	c, err := rowlock.New(store, rowlock.Options{ReapInterval: -1})
	must(t, err)
	defer c.Close(context.Background())
	l := gocronlock.NewLocker(c)
	refuse(store)
	if _, err := l.Lock(t.Context(), "job"); err == nil || errors.Is(err, rowlock.ErrHeld) {
		t.Errorf("a lock of a database that refuses it: %v", err)
	}
	store.Clear()
	lock, err := l.Lock(t.Context(), "job")
	must(t, err)
	must(t, lock.Unlock(t.Context()))
}
