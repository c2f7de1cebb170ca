package mysqllock

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/mysql/internal/conn"
	"github.com/rowlock/rowlock/mysql/internal/row"
)

// forUpdate is the strategy SelectForUpdate (pessimistic): a hold is the lock that
// one database session has on the key's row in rowlock_session_row. The server
// drops it when the session ends, so a process that dies frees its keys at once.
//
// Beside the row there is the lease row in rowlock_session, as in the other
// strategies: it gives the token, tells who holds, keeps MinHold, and is what a
// guarded transaction locks. It does not decide who holds the key; the row lock does.
//
// # An acquire
//
//	(1+2) session     lock the row, at once or not at all, or in the server's queue,
//	                  and read the lease row's token t0
//	(3)   other conn  write the hold into the lease row where the token is still t0
//	(4)   session     read it back
//
// Granted only after (4): whoever has the row lock before (3) and still after it
// is the only one who can have written. A (3) that arrives late, when its session
// is dead, changes a row whose token somebody else has raised, or grants nothing
// because (4) fails. (3) is a commit of its own, because the session must not write:
// its transaction stays open as long as the hold. It waits for an open guarded
// transaction of the old holder, so it is bounded like any takeover; and where keys
// were just found blocked a look comes before it: see caution.
//
// # While it is held
//
// The server ends a session that is silent for wait_timeout, here the TTL in whole
// seconds, rounded up: https://dev.mysql.com/doc/refman/9.7/en/server-system-variables.html#sysvar_wait_timeout
// So each session gets a heartbeat (the engine calls Renew every min(TTL/10, 1s)),
// and the lease rows are renewed, all in one statement, when the last time was a
// third of the TTL ago. A hold is trusted until the earlier of the two runs out.
//
// # The exception to P2
//
// A session can end before its time: KILL, a restart of the server, a firewall, a
// proxy. The key is free at that moment, and the holder learns of it at its next
// heartbeat. Until then two believe that they hold the key. Guarded transactions
// are not deceived: the next grant raises the token.
//
// # The end
//
// A release is ROLLBACK on the session; the lease row keeps what it has, with
// kept_until for MinHold, written at the grant so that a crash keeps it too. The
// session then serves the next acquire. A session of which we do not know what it
// does is closed, and KILLed where that is allowed; where not, wait_timeout ends it.
type forUpdate struct {
	db *conn.DB
	forUpdateOptions
	lease *row.Table // the lease rows; only its statements that do not take a key are used

	sessions *conn.Pool
	attempts chan struct{} // one for each acquire under way
	caution  *caution
	hinter   *hinter

	life context.Context // ends with the Store
	end  context.CancelFunc

	mu     sync.Mutex
	holds  map[driver.HoldID]*hold    // granted, by this Store
	failed map[driver.HoldID]*failure // attempts whose outcome is not known
}

// minSessionTTL is the smallest TTL: the server counts wait_timeout in seconds.
const minSessionTTL = time.Second

// forUpdateOptions are what a Store tells the strategy.
type forUpdateOptions struct {
	leases, rows string // tables: of the lease rows, and of those that sessions lock
	connections  int    // the Store's other ones
	spare        int    // those of a program's pool that are left to the program
}

// newForUpdate makes the strategy. A program's pool that is bounded must leave room for
// at least one session.
func newForUpdate(d *conn.DB, o forUpdateOptions) (*forUpdate, error) {
	f := &forUpdate{
		db:               d,
		forUpdateOptions: o,
		lease:            row.NewTable(d, o.leases),
		attempts:         make(chan struct{}, maxAttempts),
		holds:            make(map[driver.HoldID]*hold),
		failed:           make(map[driver.HoldID]*failure),
	}
	f.sessions, f.caution, f.hinter = newSessions(f), newCaution(f), &hinter{f: f}
	if most, room := f.room(); room < 1 {
		return nil, fmt.Errorf("%w: the pool allows %d connections, and strategy for-update needs one for each held key beside %d of Options.Connections and %d for your own transactions: SetMaxOpenConns(0), or at least %d and one more for each further key",
			driver.ErrInvalid, most, f.connections, f.spare, f.connections+f.spare+1)
	}
	f.life, f.end = context.WithCancel(context.Background())
	return f, nil
}

func (f *forUpdate) Limits() driver.Limits {
	return driver.Limits{Batch: 500, MinTTL: minSessionTTL, LockWait: conn.LockWait, Heartbeat: true, Queue: true}
}

func (f *forUpdate) Layout() []row.Layout {
	tables := f.lease.Layout()
	tables[0].Columns = append(tables[0].Columns, "kept_until", "conn_id", "server", "started")
	return append(tables, row.Layout{Table: f.rows, Columns: []string{"name"}})
}

// Close ends all sessions, and with them what they hold.
func (f *forUpdate) Close() {
	f.sessions.Close()
	f.mu.Lock()
	f.end()
	holds := f.holds
	f.holds = make(map[driver.HoldID]*hold)
	f.mu.Unlock()
	for _, h := range holds {
		h.turn <- struct{}{} // a heartbeat under way has just been cancelled
		h.session.Put()      // the pool is closed
	}
}

// work runs do in the background; Close waits for it. false: the Store was closed.
func (f *forUpdate) work(do func()) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.life.Err() != nil {
		return false
	}
	f.db.Work(do)
	return true
}

// put takes a granted hold into care; false: the Store was closed.
func (f *forUpdate) put(h *hold) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.life.Err() != nil {
		return false
	}
	f.holds[h.id] = h
	return true
}

// get finds a granted hold of this Store; nil: there is none.
func (f *forUpdate) get(key string, id driver.HoldID) *hold {
	f.mu.Lock()
	defer f.mu.Unlock()
	if h := f.holds[id]; h != nil && h.key == key {
		return h
	}
	return nil
}

// take is get for whoever ends the hold: only one does.
func (f *forUpdate) take(h *hold) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.holds[h.id] != h {
		return false
	}
	delete(f.holds, h.id)
	return true
}

// Guards: the lease row stays as it is when a session ends, so it does not tell
// whether the hold is over.
func (f *forUpdate) Guards(h driver.Hold) (*row.Table, bool) {
	return f.lease, f.get(h.Key, h.ID) != nil
}
