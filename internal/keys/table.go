package keys

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/batch"
	"github.com/rowlock/rowlock/internal/call"
	"github.com/rowlock/rowlock/internal/grant"
	"github.com/rowlock/rowlock/internal/logs"
	"github.com/rowlock/rowlock/internal/numbers"
	"github.com/rowlock/rowlock/internal/undo"
)

// Table is all keys that callers of a client wait for, or that it has, or had just now: it carries out what the machines of
// the keys (internal/key) say, and brings them what happens. It knows callers by what they ask, and gives them users of
// grants; leases, options and the errors of users are made where it is called.
type Table struct {
	Config
	number uint32 // the client's, in hints

	acquires   *batch.Batcher[driver.Request]
	pinned     *batch.Batcher[driver.Request] // acquires of keys that were pinned the last time: they keep no others waiting
	Renewer    *grant.Renewer
	Unresolved *undo.Unresolved

	liner  driver.Liner  // nil: the keys of the store have no lines, and queuer is there
	turner driver.Turner // nil: the server wakes nobody
	queuer driver.Queuer // nil: it keeps nobody in a queue

	mu        sync.Mutex
	prober    prober
	watcher   watcher
	Observers observers
	slowest   slowest
	usual     time.Duration // how long this client has a key, on average

	holderReads holderReads

	keys     map[ID]*keyEntry // that callers wait for, or that this client has, or had just now
	waiting  int              // callers that wait for them
	together int              // those of them that do not want it exclusively
	idleKeys int              // entries that are kept only for what they know
	free     []*Waiter        // for reuse
	freeKeys []*keyEntry
	attempts attempts                 // on their way
	givenUp  map[ID]int               // those of them whose callers have left
	mayCome  map[driver.HoldID]inLine // the places of holds of this client, with attempts that may still come: see placeServed
	closed   bool
}

// Config is what a table is made of. It is constant.
type Config struct {
	Store  *call.Store
	Now    func() time.Duration // the clock of trust
	Log    *slog.Logger
	Logs   *logs.Queue
	Report *logs.Report

	Owner       string        // of callers that do not say another
	HandoffTime time.Duration // Options.Handoff

	Open     context.Context // ends when Close begins
	Renewing context.Context // ends when Close has ended every lease: until then they are renewed

	// NewUser makes the handle of a caller that got its key then. g is the grant that the client has; nil: one that is still
	// to be made, for which newUser makes room.
	NewUser func(g *grant.Grant, began time.Duration, token int64) grant.Used

	Lost    func(key string, token int64, reason grant.Reason, cause error) error // for the log
	Watched bool                                                                  // users are grant.Watchers

	OwnMargin bool // Options.Margin is the program's
}

func New(config Config) *Table {
	store := config.Store
	t := &Table{
		Config:   config,
		number:   numbers.Client(),
		acquires: acquires(store), pinned: acquires(store),
		Unresolved: undo.New(store, config.Report, config.Log),
		keys:       make(map[ID]*keyEntry),
		givenUp:    make(map[ID]int),
	}
	t.Renewer = grant.NewRenewer(grant.Config{
		Store: store, Unresolved: t.Unresolved, Report: t.Report, Steps: t.Logs, Open: t.Renewing,
		Lost: t.Lost, Releasing: t.grantReleasing, Ended: t.grantEnded, Watched: t.Watched,
	})
	t.prober.init(t)
	t.Observers.t = t
	t.watcher.t = t
	t.watcher.store, _ = store.Driver().(driver.Waiter)
	if store.Limits.Queue {
		t.queuer, _ = store.Driver().(driver.Queuer)
	}
	if store.Limits.Line {
		t.liner, _ = store.Driver().(driver.Liner)
		if store.Limits.Turns {
			t.turner, _ = store.Driver().(driver.Turner)
		}
	}
	return t
}

// acquires is a batcher of acquires.
func acquires(store *call.Store) *batch.Batcher[driver.Request] {
	l := store.Limits
	return batch.New(batch.Config[driver.Request]{
		Store: store, Send: store.Acquire,
		Entry: func(r *driver.Request) (key, id string) { return r.Key, "" },
		Size:  l.Batch, Alone: l.InFlight == 0, AtOnce: l.InFlight, Most: batch.Most, Slow: l.SlowBatch, Gather: true,
	})
}

// UnderWay names the keys of which a release or an acquire is not answered.
func (t *Table) UnderWay() (keys []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for id, k := range t.keys {
		if k.Held > 0 {
			keys = append(keys, id.Name)
		}
	}
	for w := t.attempts.first; w != nil; w = w.next {
		keys = append(keys, w.try.Q.Key)
	}
	return keys
}

// MayBeFree reports whether an attempt at once for a key is worth it: no other caller of this client has it in a mode that
// excludes this one, or waits for it in the same mode, and this client does not leave it to another program now.
func (t *Table) MayBeFree(id ID) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	k := t.keys[id]
	return (k == nil || k.Open(t.Now(), k.env())) && t.heldHere(id) == nil
}

// EachWaiting calls f for each caller that waits.
func (t *Table) EachWaiting(f func(*Waiter)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, k := range t.keys {
		for _, w := range k.waiters {
			f(w)
		}
	}
}

// CountWaiting counts the callers that wait.
func (t *Table) CountWaiting() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.waiting
}

// Close begins the end of all that waits for keys: nothing new begins. Callers that wait leave by themselves.
func (t *Table) Close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	for _, k := range t.keys {
		k.clearGate()
		if k.sent == nil {
			k.leaveLine()
		}
	}
}
