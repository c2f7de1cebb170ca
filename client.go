package rowlock

import (
	"context"
	"fmt"
	"log/slog"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/batch"
	"github.com/rowlock/rowlock/internal/call"
	"github.com/rowlock/rowlock/internal/clock"
	"github.com/rowlock/rowlock/internal/grant"
	"github.com/rowlock/rowlock/internal/logs"
	"github.com/rowlock/rowlock/internal/numbers"
	"github.com/rowlock/rowlock/internal/undo"
)

// Locker is what code that needs a lock accepts. *Client implements it.
type Locker interface {
	// Acquire waits until key is held and returns its lease. ctx bounds the wait,
	// never the hold.
	Acquire(ctx context.Context, key string, opts ...Option) (*Lease, error)

	// TryAcquire tries once. If another has the key the error matches ErrHeld.
	TryAcquire(ctx context.Context, key string, opts ...Option) (*Lease, error)
}

var _ Locker = (*Client)(nil)

// Client takes and keeps locks in one Store. One Client for each program and
// Store is enough, and best: its callers share renewals and queues. It is safe
// for concurrent use. Close it at the end.
type Client struct {
	store  *call.Store
	opts   Options
	log    *slog.Logger // its records go through logs
	logs   *logs.Queue
	report logs.Report
	teller *teller              // nil: there are no observers
	now    func() time.Duration // the clock of trust
	number uint32               // the client's, in hints

	longHold    time.Duration // Options.LongHold; 0: there is no log
	keyNamesOff atomic.Bool   // Options.KeyName has panicked

	acquires   *batch.Batcher[driver.Request]
	pinned     *batch.Batcher[driver.Request] // acquires of keys that were pinned the last time: they keep no others waiting
	renewer    *grant.Renewer
	unresolved *undo.Unresolved

	mu        sync.Mutex
	prober    prober
	watcher   watcher
	observers observers
	line      line

	holderReads holderReads

	queuer   driver.Queuer       // nil: the store has no queue that grants
	turner   driver.Turner       // nil: nor one for turns
	keys     map[keyID]*keyEntry // that callers wait for, or that this client has, or had just now
	waiting  int                 // callers that wait for them
	together int                 // those of them that do not want it exclusively
	hints    int                 // keys whose hint is renewed
	idleKeys int                 // entries that are kept only for their hint, yield time or slots
	free     []*waiter           // for reuse
	freeKeys []*keyEntry
	doing    map[*leaseContext]struct{} // functions of Do that run
	attempts attempts                   // on their way
	givenUp  map[keyID]int              // those of them whose callers have left
	closed   bool
	doneAll  chan struct{} // closed when Close has begun and no function of Do runs
	done     chan struct{} // closed when Close has finished
	closeErr error         // its answer; read after done
	reaping  sync.Once

	open        context.Context // ends when Close begins
	endOpen     context.CancelFunc
	renewing    context.Context // ends when Close has ended every lease: until then they are renewed
	endRenewing context.CancelFunc
}

// New makes a Client on store, for example mysqllock's or mongolock's. It does no
// I/O and starts nothing. An option that is out of bounds is an error that
// matches ErrInvalid and names it.
func New(store driver.Store, o Options) (*Client, error) {
	if store == nil {
		return nil, fmt.Errorf("%w: the store is nil", ErrInvalid)
	}
	if v := reflect.ValueOf(store); v.Kind() == reflect.Pointer && v.IsNil() {
		return nil, fmt.Errorf("%w: the store is a nil %T: was the error of the call that made it looked at?", ErrInvalid, store)
	}
	limits := store.Limits()
	if limits.Batch < 1 {
		return nil, fmt.Errorf("%w: the store's largest batch is %d", ErrInvalid, limits.Batch)
	}
	limits.Renewals = max(limits.Renewals, limits.Batch)
	o, err := o.fill(limits)
	if err != nil {
		return nil, err
	}
	now := clock.Now
	if own, ok := store.(driver.Clock); ok {
		now = own.Now
	}
	c := &Client{
		store:   call.New(store, limits, now),
		opts:    o,
		now:     now,
		keys:    make(map[keyID]*keyEntry),
		givenUp: make(map[keyID]int),
		number:  numbers.Client(),
		done:    make(chan struct{}),
		doneAll: make(chan struct{}),
	}
	var attrs []any
	if o.Name != "" {
		attrs = []any{"client", o.Name}
	}
	c.log, c.logs = logs.New(o.Logger, attrs...)
	if o.Logger != nil {
		c.longHold = o.LongHold
	}
	if c.teller = newTeller(c, o); c.teller != nil && c.teller.calls {
		c.store.Called = c.teller.called
	}
	c.report.Init(c.log, now)
	c.open, c.endOpen = context.WithCancel(context.Background())
	c.renewing, c.endRenewing = context.WithCancel(context.Background())
	c.acquires, c.pinned = acquires(c.store), acquires(c.store)
	c.unresolved = undo.New(c.store, &c.report, c.log)
	c.renewer = grant.NewRenewer(grant.Config{
		Store: c.store, Unresolved: c.unresolved, Report: &c.report, Steps: c.logs, Open: c.renewing,
		Lost: func(key string, token int64, reason grant.Reason, cause error) error {
			return lostError(key, token, reason, cause)
		},
		Releasing: c.grantReleasing, Ended: c.grantEnded, Watched: c.teller != nil,
	})
	c.prober.init(c)
	c.observers.c = c
	c.line.init(c, store)
	c.watcher.c = c
	c.watcher.store, _ = store.(driver.Waiter)
	if limits.Queue {
		c.queuer, _ = store.(driver.Queuer)
	}
	if limits.Turns {
		c.turner, _ = store.(driver.Turner)
	}
	if c.teller != nil {
		c.teller.begin()
	}
	return c, nil
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

func (c *Client) isClosed() bool { return c.open.Err() != nil }
