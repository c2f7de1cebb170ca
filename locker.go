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
	"github.com/rowlock/rowlock/internal/clock"
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
	store  driver.Store
	limits driver.Limits
	opts   Options
	log    *slog.Logger // its records go through logs
	logs   *logQueue
	now    func() time.Duration // the clock of trust

	longHold time.Duration // Options.LongHold; 0: nobody would read of it

	acquires lane[driver.Request]
	pinned   lane[driver.Request] // acquires of keys that were pinned the last time: they keep no others waiting
	releases lane[driver.Hold]
	keeper   keeper
	renews   renewals
	undoer   undoer
	troubles troubles
	work     activity

	mu          sync.Mutex
	prober      prober
	watcher     watcher
	queuer      driver.Queuer     // nil: the store has no queue
	queues      map[string]*queue // keys that somebody waits for
	waiting     int               // callers in them
	spare       []*waiter         // for reuse
	spareQueues []*queue
	local       map[string]localKey        // keys that a lease of this client holds, or whose release is under way
	recent      recent                     // keys that were released just now
	doing       map[*leaseContext]struct{} // functions of Do that run
	attempts    attempts                   // on their way
	closed      bool
	doneAll     chan struct{} // closed when Close has begun and no function of Do runs
	done        chan struct{} // closed when Close has finished
	closeErr    error         // its answer; read after done
	reaping     sync.Once

	open    context.Context // ends when Close begins
	endOpen context.CancelFunc
	keeping context.Context // ends when Close has ended every lease: until then they are renewed
	endKeep context.CancelFunc
	life    context.Context // ends when Close has finished: the context of every statement
	endLife context.CancelFunc

	calls, renewals, losses, late atomic.Uint64
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
	c := &Client{
		store:  store,
		limits: limits,
		opts:   o,
		now:    clock.Now,
		queues: make(map[string]*queue),
		local:  make(map[string]localKey),
		done:   make(chan struct{}),

		doneAll: make(chan struct{}),
	}
	c.log, c.logs = newLogger(o.Logger)
	if o.Logger != nil {
		c.longHold = o.LongHold
	}
	c.troubles.init(c)
	c.open, c.endOpen = context.WithCancel(context.Background())
	c.keeping, c.endKeep = context.WithCancel(context.Background())
	c.life, c.endLife = context.WithCancel(context.Background())
	if own, ok := store.(driver.Clock); ok {
		c.now = own.Now
	}
	c.work.init()
	c.acquires = lane[driver.Request]{
		c: c, send: store.Acquire,
		key: func(r *driver.Request) string { return r.Key },
	}
	c.pinned = lane[driver.Request]{c: c, send: c.acquires.send, key: c.acquires.key}
	c.releases = lane[driver.Hold]{
		c: c, send: store.Release,
		key: func(h *driver.Hold) string { return h.Key },
	}
	c.prober.init(c)
	c.watcher.c = c
	c.watcher.store, _ = store.(driver.Waiter)
	if limits.Queue {
		c.queuer, _ = store.(driver.Queuer)
	}
	c.keeper.init(c)
	c.renews.c = c
	c.undoer.init(c)
	return c, nil
}

func (c *Client) isClosed() bool { return c.open.Err() != nil }

// debug tells whether steps are logged: the arguments of a log call cost more
// than a step.
func (c *Client) debug(ctx context.Context) bool { return c.log.Enabled(ctx, slog.LevelDebug) }
