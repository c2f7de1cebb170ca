package gocronlock_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rowlock/rowlock"
	gocronlock "github.com/rowlock/rowlock/adapters/gocron"
	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/memory"
)

// refusing is a database that refuses its user at times.
type refusing struct {
	*memory.Store
	now *atomic.Bool // shared by all programs
}

func (s refusing) err() error {
	if s.now.Load() {
		return &driver.Error{Lasting: true, NotApplied: true, Err: errors.New("the server refused the user or password")}
	}
	return nil
}

func (s refusing) Acquire(ctx context.Context, reqs []driver.Request) ([]driver.Result, error) {
	if err := s.err(); err != nil {
		return nil, err
	}
	return s.Store.Acquire(ctx, reqs)
}

func (s refusing) Renew(ctx context.Context, holds []driver.Hold) ([]driver.Result, error) {
	if err := s.err(); err != nil {
		return nil, err
	}
	return s.Store.Renew(ctx, holds)
}

func (s refusing) Look(ctx context.Context, entries []driver.Entry) ([]driver.View, error) {
	if err := s.err(); err != nil {
		return nil, err
	}
	return s.Store.Look(ctx, entries)
}

// TestElectorAfterARefusal: three processes, whose Run nobody looks at, and a password that is rotated: then one leads again, and the log
// has a line of each. A process that begins meanwhile has an error at once.
func TestElectorAfterARefusal(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const ttl = 3 * time.Second
		store := refusing{memory.New(), new(atomic.Bool)}
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
		store.now.Store(true)
		time.Sleep(5 * time.Second)
		if n := leaders(); n != 0 {
			t.Errorf("%d leaders while the database refuses them", n)
		}
		late := gocronlock.NewElector(client(new(bytes.Buffer)), "scheduler")
		if err := late.Run(t.Context()); err == nil || !errors.Is(late.IsLeader(t.Context()), err) {
			t.Errorf("at a first use Run = %v, IsLeader = %v", err, late.IsLeader(t.Context()))
		}
		store.now.Store(false)
		time.Sleep(2 * ttl)
		if n := leaders(); n != 1 {
			t.Errorf("P24: %d leaders two TTLs after the password is right again: %v", n, electors[0].IsLeader(t.Context()))
		}
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
	store := refusing{memory.New(), new(atomic.Bool)}
	c, err := rowlock.New(store, rowlock.Options{ReapInterval: -1})
	must(t, err)
	defer c.Close(context.Background())
	l := gocronlock.NewLocker(c)
	store.now.Store(true)
	if _, err := l.Lock(t.Context(), "job"); err == nil || errors.Is(err, rowlock.ErrHeld) {
		t.Errorf("a lock of a database that refuses it: %v", err)
	}
	store.now.Store(false)
	lock, err := l.Lock(t.Context(), "job")
	must(t, err)
	must(t, lock.Unlock(t.Context()))
}
