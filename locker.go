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
	"github.com/rowlock/rowlock/internal/call"
	"github.com/rowlock/rowlock/internal/clock"
	"github.com/rowlock/rowlock/internal/grant"
	"github.com/rowlock/rowlock/internal/keys"
	"github.com/rowlock/rowlock/internal/logs"
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
	store       *call.Store
	opts        Options
	log         *slog.Logger // its records go through logs
	logs        *logs.Queue
	report      logs.Report
	teller      *teller              // nil: there are no observers
	now         func() time.Duration // the clock of trust
	longHold    time.Duration        // Options.LongHold; 0: there is no log
	keyNamesOff atomic.Bool          // Options.KeyName has panicked

	table *keys.Table // all keys that callers wait for, or that the client has

	doing    doing
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
	_, queues := store.(driver.Queuer)
	_, lines := store.(driver.Liner)
	if limits.Queue, limits.Line = limits.Queue && queues, limits.Line && lines; limits.Queue == limits.Line {
		return nil, fmt.Errorf("%w: the store (%T) must have either lines, in which programs wait for a key (driver.Liner and Limits.Line), or a queue in the server (driver.Queuer and Limits.Queue)", ErrInvalid, store)
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
		store: call.New(store, limits, now),
		opts:  o,
		now:   now,
		done:  make(chan struct{}),
		doing: doing{done: make(chan struct{})},
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
	c.table = keys.New(keys.Config{
		Store: c.store, Now: now, Log: c.log, Logs: c.logs, Report: &c.report,
		Owner: o.Owner, HandoffTime: o.Handoff, Open: c.open, Renewing: c.renewing,
		NewUser: c.newUser,
		Lost: func(key string, token int64, reason grant.Reason, cause error) error {
			return lostError(key, token, reason, cause)
		},
		Watched: c.teller != nil, OwnMargin: o.Margin > 0,
	})
	if c.teller != nil {
		c.teller.begin()
	}
	return c, nil
}

func (c *Client) isClosed() bool { return c.open.Err() != nil }

// Name is Options.Name.
func (c *Client) Name() string {
	if c == nil {
		return ""
	}
	return c.opts.Name
}

// Store is the one that the client was made with; nil for a nil Client.
func (c *Client) Store() driver.Store {
	if c == nil {
		return nil
	}
	return c.store.Driver()
}
