package session

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/mysql/internal/conn"
	"github.com/rowlock/rowlock/mysql/internal/row"
	"github.com/rowlock/rowlock/mysql/internal/share"
)

// ForUpdate is the strategy. It is safe for concurrent use.
type ForUpdate struct {
	db *conn.DB
	Config
	lease *share.Table // the lease rows, with readers and slots; of exclusive holds only the statements that do not take a key are used

	Sessions  *conn.Pool
	full      atomic.Int64  // until when no idle session is kept, as a Unix time in nanoseconds; see noRoom
	attempts  chan struct{} // one for each acquire under way
	undoing   chan struct{} // one for each undo on a connection for releases
	lookFirst *lookFirst
	hinter    *hinter
	phases    phases

	life context.Context // ends with the Store
	end  context.CancelFunc

	mu     sync.Mutex
	holds  map[driver.HoldID]*hold    // granted, by this Store
	failed map[driver.HoldID]*failure // attempts whose outcome is not known
}

// MinTTL is the smallest TTL: the server counts wait_timeout in seconds.
const MinTTL = time.Second

// Config are what a Store tells the strategy.
type Config struct {
	Leases, Rows string // tables: of the lease rows, and of those that sessions lock
	Shares       string // the table of readers and slots
	Connections  int    // the Store's other ones
	Spare        int    // those of a program's pool that are left to the program
}

// NewForUpdate makes the strategy. A program's pool that is bounded must leave room for
// at least one session.
func NewForUpdate(d *conn.DB, o Config) (*ForUpdate, error) {
	f := &ForUpdate{
		db:       d,
		Config:   o,
		lease:    share.New(row.NewTable(d, o.Leases), o.Shares),
		attempts: make(chan struct{}, MaxAttempts),
		undoing:  make(chan struct{}, max(1, d.Releases.Max-1)),
		holds:    make(map[driver.HoldID]*hold),
		failed:   make(map[driver.HoldID]*failure),
	}
	f.Sessions, f.lookFirst, f.hinter = newSessions(f), newLookFirst(f), &hinter{f: f}
	if most, room := f.room(); room < 1 {
		return nil, fmt.Errorf("%w: the pool allows %d connections, and strategy for-update needs one for each held key beside %d of Options.Connections and %d for your own transactions: SetMaxOpenConns(0), or at least %d and one more for each further key",
			driver.ErrInvalid, most, f.Connections, f.Spare, f.Connections+f.Spare+1)
	}
	f.life, f.end = context.WithCancel(context.Background())
	return f, nil
}

// Limits are driver.Store's.
func (f *ForUpdate) Limits() driver.Limits {
	return driver.Limits{Batch: 500, MinTTL: MinTTL, LockWait: queueWait, Heartbeat: true, Queue: true, Modes: driver.ModesOf(driver.Shared, driver.Slot)}
}

// Layout is what the strategy needs of its tables.
func (f *ForUpdate) Layout() []row.Layout {
	tables := f.lease.Layout()
	tables[0].Columns = append(tables[0].Columns, "kept_until", "conn_id", "server", "started")
	return append(tables, row.Layout{Table: f.Rows, Columns: []string{"name"}, Index: "held"})
}

// Close ends all sessions, and with them what they hold.
func (f *ForUpdate) Close() {
	f.Sessions.Close()
	f.mu.Lock()
	f.end()
	holds := f.holds
	f.holds = make(map[driver.HoldID]*hold)
	f.mu.Unlock()
	for _, h := range holds {
		h.sem <- struct{}{} // a heartbeat under way has just been cancelled
		h.session.Put()     // the pool is closed
	}
}

// work runs do in the background; Close waits for it. false: the Store was closed.
func (f *ForUpdate) work(do func()) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.life.Err() != nil {
		return false
	}
	f.db.Work(do)
	return true
}

// put takes a granted hold into care; false: the Store was closed.
func (f *ForUpdate) put(h *hold) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.life.Err() != nil {
		return false
	}
	f.holds[h.id] = h
	return true
}

// get finds a granted hold of this Store; nil: there is none.
func (f *ForUpdate) get(key string, id driver.HoldID) *hold {
	f.mu.Lock()
	defer f.mu.Unlock()
	if h := f.holds[id]; h != nil && h.key == key {
		return h
	}
	return nil
}

// take is get for the goroutine that ends the hold: only one does.
func (f *ForUpdate) take(h *hold) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.holds[h.id] != h {
		return false
	}
	delete(f.holds, h.id)
	return true
}

// Touch is share.Table's.
func (f *ForUpdate) Touch() string { return f.lease.Touch() }

// Guards: the lease row stays as it is when a session ends, so it does not tell
// whether the hold is over.
func (f *ForUpdate) Guards(h driver.Hold) (*share.Table, bool) {
	return f.lease, h.Mode != driver.Exclusive || f.get(h.Key, h.ID) != nil
}
