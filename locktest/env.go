package locktest

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"path"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/testserver"
)

// env is a Harness with what the cases share.
type env struct {
	Harness
	limits                         driver.Limits
	reaper, lister, forcer, counts bool
	room                           int // for holds at a time; 0: any number

	id    string // begins the keys of this run
	keys  atomic.Int64
	ttl   time.Duration // of leases that a slow machine should be able to keep
	short time.Duration // of leases that are meant to end
}

const (
	normalTTL = time.Second
	shortTTL  = 300 * time.Millisecond

	// longTTL is so long that a key which is free "soon" cannot owe it to expiry.
	longTTL = 24 * time.Hour
)

// patience bounds every wait for something that must happen.
func patience(t testing.TB) time.Duration { return testserver.Patience(t) }

func randomHex() string {
	var b [5]byte
	rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// key makes a key of the case's own.
func (e *env) key(t testing.TB) string {
	return fmt.Sprintf("%s:%s:%d", e.id, path.Base(t.Name()), e.keys.Add(1))
}

// client makes a Client on a Store of its own: another program, to the backend.
func (e *env) client(t testing.TB, o rowlock.Options) *rowlock.Client {
	t.Helper()
	return e.clientOn(t, e.Open(t), o)
}

// faulty makes a Client on a Store of its own with a Fault in between.
func (e *env) faulty(t testing.TB, o rowlock.Options) (*rowlock.Client, *Fault) {
	t.Helper()
	f := NewFault(e.Open(t))
	return e.clientOn(t, f, o), f
}

// clientOn makes a Client on s and closes it at the end of the test.
func (e *env) clientOn(t testing.TB, s driver.Store, o rowlock.Options) *rowlock.Client {
	t.Helper()
	if o.TTL == 0 {
		o.TTL = longTTL
	}
	if o.ReapInterval == 0 {
		o.ReapInterval = -1
	}
	c, err := rowlock.New(s, o)
	if err != nil {
		t.Fatalf("rowlock.New: %v", err)
	}
	t.Cleanup(func() {
		if f, ok := s.(*Fault); ok {
			f.Clear()
		}
		ctx, cancel := context.WithTimeout(context.Background(), patience(t))
		defer cancel()
		if err := c.Close(ctx); err != nil {
			t.Errorf("close the client: %v", err)
		}
	})
	return c
}

// load bounds n goroutines by Harness.Concurrency.
func (e *env) load(n int) int {
	if e.Concurrency > 0 {
		return max(min(n, e.Concurrency), 2)
	}
	return n
}

// hold shrinks the number of keys that are held at a time, until the connections
// they need are few enough for a server with its default limits.
func (e *env) hold(n int) int {
	for e.MaxConnections != nil && n > 8 && e.MaxConnections(n, 0) > 100 {
		n = n * 3 / 4
	}
	return n
}

// soon is a context for something that must happen.
func soon(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience(t))
	t.Cleanup(cancel)
	return ctx
}

// renew1 renews by hand. A try that the database did not answer in time has changed
// nothing and says nothing: it is repeated while the lease is held.
func renew1(t testing.TB, lease *rowlock.Lease) error {
	ctx := soon(t)
	for {
		err := lease.Renew(ctx)
		if err == nil || lease.Err() != nil || ctx.Err() != nil {
			return err
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// until waits until ok, and fails the test when that takes too long.
func until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	untilFor(t, patience(t), what, ok)
}

func untilFor(t testing.TB, long time.Duration, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(long); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("after %v still not: %s", long, what)
		}
	}
}

// rounds is how often a case does what goes wrong by chance: n times, on a server a third of that in the short tier.
func (e *env) rounds(n int) int {
	if testing.Short() && processes(e) {
		return (n + 2) / 3
	}
	return n
}

// stress is how long it does so: n short TTLs.
func (e *env) stress(n int) time.Duration { return time.Duration(e.rounds(n)) * e.short }

// working reports whether a case that works for d goes on: on a busy machine until there is enough.
func working(t testing.TB, d time.Duration, enough func() bool) (goesOn func() bool) {
	began, bound := time.Now(), patience(t)
	return func() bool {
		took := time.Since(began)
		return took < d || took < bound && !enough()
	}
}

// inTime runs a round until nothing is wrong. A round that takes as long as what it is about lasts says nothing,
// and is run again.
func inTime(t testing.TB, lasts time.Duration, round func() (wrong string)) {
	t.Helper()
	for end := time.Now().Add(patience(t)); ; {
		began := time.Now()
		wrong := round()
		took := time.Since(began)
		switch {
		case wrong == "":
			return
		case took < lasts || time.Now().After(end):
			t.Fatalf("%s, in a round of %v", wrong, took)
		}
		t.Logf("%s, in a round of %v; again", wrong, took)
	}
}

// acquiring begins to wait for a key. The returned function waits for the lease, or ends the test.
func acquiring(t testing.TB, l rowlock.Locker, key string, opts ...rowlock.Option) (lease func() *rowlock.Lease) {
	type result struct {
		lease *rowlock.Lease
		err   error
	}
	got, ctx := make(chan result, 1), soon(t)
	go func() {
		lease, err := l.Acquire(ctx, key, opts...)
		got <- result{lease, err}
	}()
	return func() *rowlock.Lease {
		t.Helper()
		r := <-got
		if r.err != nil {
			t.Fatalf("acquire: %v", r.err)
		}
		return r.lease
	}
}

// closed waits for a channel to be closed.
func closed(t testing.TB, what string, c <-chan struct{}) {
	t.Helper()
	bound := patience(t)
	select {
	case <-c:
	case <-time.After(bound):
		t.Fatalf("after %v still not: %s", bound, what)
	}
}

func acquire(t testing.TB, l rowlock.Locker, key string, opts ...rowlock.Option) *rowlock.Lease {
	t.Helper()
	lease, err := l.Acquire(soon(t), key, opts...)
	if err != nil {
		t.Fatalf("acquire: %v", err)
	}
	return lease
}

func release1(t testing.TB, l *rowlock.Lease) {
	t.Helper()
	if err := l.Release(context.Background()); err != nil {
		t.Fatalf("release: %v", err)
	}
}

// refused checks that another cannot have the key.
func refused(t testing.TB, l rowlock.Locker, key string) {
	t.Helper()
	switch lease, err := l.TryAcquire(soon(t), key); {
	case err == nil:
		t.Fatalf("P1: %q was granted (token %d) while another holds it", key, lease.Token())
	case !errors.Is(err, rowlock.ErrHeld):
		t.Fatalf("try a held key: %v, want ErrHeld", err)
	}
}

// freeSoon checks that key, whose TTL is long, is free without waiting for it,
// and gives the token of the hold that showed it.
func freeSoon(t testing.TB, l rowlock.Locker, key string) int64 {
	t.Helper()
	lease, err := l.Acquire(soon(t), key)
	if err != nil {
		t.Fatalf("the key is still not free: %v", err)
	}
	release1(t, lease)
	return lease.Token()
}

func inspect(t testing.TB, s driver.Store, key string) driver.Info {
	t.Helper()
	infos, err := s.Inspect(soon(t), []string{key})
	if err != nil || len(infos) != 1 {
		t.Fatalf("inspect %q: %d infos, %v", key, len(infos), err)
	}
	return infos[0]
}

// reasonOf is why a lease was lost; empty: it was not.
func reasonOf(err error) rowlock.Reason {
	var lost *rowlock.LostError
	if errors.As(err, &lost) {
		return lost.Reason
	}
	return ""
}

// patiently runs a case in which a live lease must survive, with a longer TTL each
// time that it did not: on a machine that stood still the first may be lost.
func (e *env) patiently(t testing.TB, try func(ttl time.Duration) error) {
	t.Helper()
	var err error
	for ttl := e.ttl; ttl <= 16*e.ttl; ttl *= 2 {
		if err = try(ttl); err == nil {
			return
		}
		t.Logf("with a TTL of %v: %v; again with a longer one", ttl, err)
	}
	t.Fatal(err)
}
