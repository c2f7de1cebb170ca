package session

import (
	"context"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/mysql/internal/conn"
)

// What the tests of the packages above see and set. Nothing else uses it.

// SessionOf is the session of a hold; nil: there is no such hold.
func (f *ForUpdate) SessionOf(h driver.Hold) *conn.Conn {
	if own := f.get(h.Key, h.ID); own != nil {
		return own.session
	}
	return nil
}

// Hang makes the session of a hold answer nothing until answer is called.
func (f *ForUpdate) Hang(h driver.Hold) (answer func()) {
	own := f.get(h.Key, h.ID)
	own.sem <- struct{}{}
	return func() { <-own.sem }
}

// LeaseRowsDue has the next renewal renew the lease rows.
func (f *ForUpdate) LeaseRowsDue() {
	for _, h := range f.holds {
		h.rowUntil -= h.ttl / 2
	}
}

// LookFirstFor sets for how long after a blocked key others are looked at first, and ends
// it for now.
func (f *ForUpdate) LookFirstFor(d time.Duration) {
	f.lookFirst.mu.Lock()
	defer f.lookFirst.mu.Unlock()
	f.lookFirst.lasting, f.lookFirst.until = d, time.Time{}
}

// Looks reports whether looks are on their way to the server.
func (f *ForUpdate) Looks() bool {
	f.lookFirst.mu.Lock()
	defer f.lookFirst.mu.Unlock()
	return f.lookFirst.asking
}

// Hints reports whether hints are on their way to the server, or are renewed.
func (f *ForUpdate) Hints() bool {
	f.hinter.mu.Lock()
	defer f.hinter.mu.Unlock()
	return f.hinter.ticks || f.hinter.sends
}

// MissingRows are the statements that make the rows of a key.
func (f *ForUpdate) MissingRows(key string) []string {
	return []string{f.createLease(key), f.createRow(key)}
}

// WaitStatement waits for a key in the server's queue.
func (f *ForUpdate) WaitStatement(key string) string { return f.waitRow(key) }

// ProbeStatement locks the keys as a probe does.
func (f *ForUpdate) ProbeStatement(keys []string) string { return f.free(keys) }

// Steps is an acquire, step by step.
type Steps struct {
	Session *conn.Conn
	a       *acquisition
}

// Begin takes a session for an acquire.
func (f *ForUpdate) Begin(ctx context.Context, r driver.Request) (Steps, error) {
	c, err := f.session(ctx, r.TTL)
	return Steps{c, &acquisition{f: f, r: r, session: c}}, err
}

// Lock is (1) and (2).
func (s Steps) Lock(ctx context.Context) (driver.Result, error) { return s.a.lock(ctx) }

// Write is (3).
func (s Steps) Write(ctx context.Context) (driver.Result, error) { return s.a.write(ctx) }

// Confirm is (4).
func (s Steps) Confirm(ctx context.Context) (bool, error) { return s.a.confirm(ctx) }

// Fail notes that the session was lost in one of them, as an acquire does.
func (s Steps) Fail(err error) error {
	s.Session.Put()
	return s.a.fail(true, err)
}

// Run makes all steps.
func (s Steps) Run(ctx context.Context) (driver.Result, error) { return s.a.run(ctx) }
