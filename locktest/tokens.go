// P3: tokens are strictly increasing per key in the order of the grants, over
// release, expiry, takeover, forced release, reaping and a restart of the server.
//
// The order of grants is known without a clock: a holder writes its token down
// under a mutex, and only if it finds its lease held inside the mutex. A token
// that stands after another was then granted later, or P1 is broken.

package locktest

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/driver"
)

var tokens = []testCase{
	{name: "P3_EveryEndOfAHold", run: tokensOverEnds},
	{name: "P3_ManyClients", run: tokensManyClients},
	{name: "P3_ServerRestart", long: true, run: tokensRestart, needs: server},
	{name: "P3_Reaped", run: tokensReaped, needs: dead, alone: true},
	{name: "P3_ReapedAtOnce", run: tokensReapedAtOnce, needs: reaping, alone: true},
}

// ledger is the list of a key's tokens in the order of its grants.
type ledger struct {
	mu     sync.Mutex
	tokens []int64
}

// write adds the token of a lease that is held, and checks that it is the largest.
func (l *ledger) write(t testing.TB, lease *rowlock.Lease) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if lease.Err() == nil {
		l.add(t, lease)
	}
}

// writeSure is write for a key whose hold may be ended by force: the holder learns
// that only when it asks.
func (l *ledger) writeSure(t testing.TB, lease *rowlock.Lease) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if lease.Renew(context.Background()) == nil {
		l.add(t, lease)
	}
}

func (l *ledger) add(t testing.TB, lease *rowlock.Lease) {
	token := lease.Token()
	if n := len(l.tokens); token <= 0 || n > 0 && token <= l.tokens[n-1] {
		Breach(t, "P3", "%q: token %d was granted after %d", lease.Key(), token, append([]int64{0}, l.tokens...)[n])
	}
	l.tokens = append(l.tokens, token)
}

func (l *ledger) len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.tokens)
}

// tokensOverEnds goes through the ways in which a hold can end, at the seam, and
// checks that the next grant starts at least TokenRange higher.
func tokensOverEnds(t *testing.T, e *env) {
	s, key := e.Open(t), e.key(t)
	h := grant(t, s, driver.Request{Key: key, TTL: longTTL})
	ends := []struct {
		name  string
		needs bool
		end   func()
	}{
		{"release", true, func() { answer(t, s.Release, h, driver.Released) }},
		{"undo", true, func() { h.Undo = true; answer(t, s.Release, h, driver.Released) }},
		{"expiry", true, func() {
			answer(t, s.Release, h, driver.Released)
			h = grantAfter(t, s, h, driver.Request{Key: key, TTL: e.short})
		}},
		{"force", e.forcer, func() { force(t, s, key) }},
		{"force of a free key", e.forcer, func() {
			answer(t, s.Release, h, driver.Released)
			force(t, s, key)
		}},
		{"release with Keep", true, func() {
			answer(t, s.Release, h, driver.Released)
			h = grantAfter(t, s, h, driver.Request{Key: key, TTL: longTTL, Keep: e.short})
			answer(t, s.Release, h, driver.Released)
		}},
		{"release by another Store", !e.limits.Heartbeat, func() { answer(t, e.Open(t).Release, h, driver.Released) }},
	}
	for _, end := range ends {
		if end.needs {
			end.end()
			h = grantAfter(t, s, h, driver.Request{Key: key, TTL: longTTL})
		}
	}
	answer(t, s.Release, h, driver.Released)
}

// grantAfter waits until the key is free, takes it, and checks the token against
// that of the hold before.
func grantAfter(t testing.TB, s driver.Store, before driver.Hold, q driver.Request) driver.Hold {
	t.Helper()
	h := grant(t, s, q)
	if h.Token < before.Token+driver.TokenRange {
		Breach(t, "P3", "token %d was granted after %d: less than %d higher", h.Token, before.Token, driver.TokenRange)
		t.FailNow()
	}
	return h
}

// tokensManyClients ends holds in every way at once.
func tokensManyClients(t *testing.T, e *env) {
	const programs, nkeys = 4, 4
	var names [nkeys]string
	var ledgers [nkeys]ledger
	for i := range names {
		names[i] = e.key(t)
	}
	seen := func() (n int) {
		for i := range ledgers {
			n += ledgers[i].len()
		}
		return n
	}
	const fewest = 8
	goesOn := working(t, e.stress(8), func() bool { return seen() >= fewest })
	var wg sync.WaitGroup
	for range programs {
		s := e.Open(t)
		for range e.load(24) / programs {
			c := e.clientOn(t, s, rowlock.Options{TTL: e.short})
			wg.Go(func() {
				for goesOn() {
					i := rand.IntN(nkeys)
					lease, err := c.Acquire(soon(t), names[i], rowlock.NoRenew())
					if err != nil {
						t.Errorf("acquire: %v", err)
						return
					}
					ledgers[i].writeSure(t, lease)
					if rand.IntN(4) == 0 {
						<-lease.Done() // it expires, and the lock is taken over
					}
					_ = lease.Release(context.Background())
				}
			})
		}
	}
	s := e.Open(t)
	wg.Go(func() { // an operator and a reaper at work
		for goesOn() {
			if e.forcer {
				force(t, s, names[rand.IntN(nkeys)])
			}
			if e.reaper {
				if _, err := s.(driver.Reaper).Reap(soon(t), 24*time.Hour); err != nil {
					t.Errorf("reap: %v", err)
				}
			}
			time.Sleep(e.short / 4)
		}
	})
	wg.Wait()
	if n := seen(); n < fewest {
		t.Fatalf("only %d grants were seen", n)
	}
}

func tokensRestart(t *testing.T, e *env) {
	const nkeys = 4
	srv, open := e.Server(t)
	var names [nkeys]string
	var ledgers [nkeys]ledger
	var stop atomic.Bool
	var wg sync.WaitGroup
	for i := range names {
		names[i] = e.key(t)
	}
	for range 2 {
		c := e.clientOn(t, open(t), rowlock.Options{TTL: 2 * time.Second})
		for range 3 {
			wg.Go(func() {
				for !stop.Load() {
					i := rand.IntN(nkeys)
					ctx, cancel := context.WithTimeout(context.Background(), patience(t))
					lease, err := c.Acquire(ctx, names[i])
					cancel()
					if err != nil {
						t.Errorf("acquire, with the server restarted meanwhile: %v", err)
						return
					}
					ledgers[i].write(t, lease)
					if err := lease.Release(context.Background()); err != nil && !errors.Is(err, rowlock.ErrLost) {
						t.Errorf("release: %v", err)
					}
				}
			})
		}
	}
	defer wg.Wait()
	defer stop.Store(true)
	grow := func(what string) {
		t.Helper()
		for i := range ledgers {
			n := ledgers[i].len()
			until(t, what, func() bool { return ledgers[i].len() > n+3 })
		}
	}
	grow("grants before the restart")
	srv.Kill()
	srv.Restart()
	grow("grants after the restart")
}

// tokensReaped takes keys whose rows were reaped.
func tokensReaped(t *testing.T, e *env) {
	const n = 20
	prefix := e.key(t) + ":"
	e.Dead(t, prefix, n)
	s := e.Open(t)
	before := make([]int64, n)
	for i := range before {
		before[i] = inspect(t, s, deadKey(prefix, i)).Token
	}
	until(t, "the dead rows are reaped", func() bool {
		if _, err := s.(driver.Reaper).Reap(soon(t), 24*time.Hour); err != nil {
			t.Fatalf("reap: %v", err)
		}
		return inspect(t, s, deadKey(prefix, 0)).Token == 0 && inspect(t, s, deadKey(prefix, n-1)).Token == 0
	})
	for i, token := range before {
		h := grant(t, s, driver.Request{Key: deadKey(prefix, i), TTL: longTTL})
		if token == 0 || h.Token <= token {
			Breach(t, "P3", "token %d was granted after %d, which was reaped", h.Token, token)
		}
		answer(t, s.Release, h, driver.Released)
	}
}

// tokensReapedAtOnce reaps with no grace at all: a Store refuses, or its tokens go on.
func tokensReapedAtOnce(t *testing.T, e *env) {
	s, key := e.Open(t), e.key(t)
	h := grant(t, s, driver.Request{Key: key, TTL: longTTL})
	live := grant(t, s, driver.Request{Key: e.key(t), TTL: longTTL})
	answer(t, s.Release, h, driver.Released)
	if _, err := s.(driver.Reaper).Reap(soon(t), 0); err != nil && !errors.Is(err, driver.ErrInvalid) {
		t.Fatalf("reap without a grace: %v, want ErrInvalid", err)
	}
	h = grantAfter(t, s, h, driver.Request{Key: key, TTL: longTTL})
	answer(t, s.Release, h, driver.Released)
	answer(t, s.Renew, live, driver.Alive)
	answer(t, s.Release, live, driver.Released)
}
