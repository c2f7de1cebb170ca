package mysqllock

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rowlock/rowlock/driver"
)

// db is the way of one Store to its server: its pools, and what was learned of the server.
type db struct {
	sql    *sql.DB
	own    bool   // sql is the Store's
	prefix string // of the lock tables

	// Acquires may wait for other transactions, so they have connections of their
	// own. Releases and undos never do for long (see batch.change), but there may be any
	// number of them; a renewal that waits behind them is a lease that is lost, so
	// renewals have one of their own, and use those of releases that are free.
	acquires *pool
	releases *pool
	renewals *pool
	control  *pool // ends statements that wait for too long, and reads for Inspect

	slowSem    chan struct{} // the right to use the one acquire connection for what may be slow
	inspectSem chan struct{} // at most one Inspect is in a KILL's way
	cullSem    chan struct{} // at most one looks through the pool of the program's

	watchdog     *watchdog
	usual        atomic.Int64              // nanoseconds an answer usually takes
	trips        sync.Map                  // of *trip, by the server's name
	cannotKill   concluded                 // a proxy, whose numbers are not the server's
	doubt        atomic.Pointer[time.Time] // connections that were not heard of since may be dead; nil: none may. See silence.go
	packet       atomic.Int64              // a statement of more bytes was too large, although the server allows it; 0: none was
	statementLog atomic.Pointer[bool]      // the server's binary log has statements; nil: not read yet
	statements   atomic.Uint64             // sent
	keepAfter    int                       // the constant; tests change it

	background sync.WaitGroup
	life       context.Context // of what runs in the background: until close
	end        context.CancelFunc

	mu    sync.Mutex
	pools []*pool
}

// dbOptions are what a Store tells its db.
type dbOptions struct {
	sql                *sql.DB
	own                bool
	prefix             string
	acquires, releases int // connections
}

func newDB(o dbOptions) *db {
	d := &db{
		sql: o.sql, own: o.own, prefix: o.prefix, keepAfter: keepAfter,
		slowSem: make(chan struct{}, 1), inspectSem: make(chan struct{}, 1), cullSem: make(chan struct{}, 1),
	}
	d.life, d.end = context.WithCancel(context.Background())
	d.watchdog = newWatchdog(d)
	d.control = d.newPool(poolOptions{size: controlConnections})
	d.releases = d.newPool(poolOptions{size: o.releases})
	d.renewals = d.newPool(poolOptions{size: renewConnections, lender: d.releases})
	d.acquires = d.newPool(poolOptions{size: o.acquires})
	return d
}

// close closes all connections, the control connection last: what ends in the background
// may have something to KILL.
func (d *db) close() error {
	d.end()
	for _, p := range d.all() {
		if p != d.control {
			p.close()
		}
	}
	d.background.Wait()
	d.control.close()
	if d.own {
		return d.sql.Close()
	}
	return nil
}

func (d *db) all() []*pool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.pools
}

// work runs f in the background; close waits for it.
func (d *db) work(f func()) {
	d.background.Add(1)
	go func() {
		defer d.background.Done()
		f()
	}()
}

// step runs f on a connection of the pool, and again on another where the first
// turned out to be dead before anything was sent on it, or to lead to a server that
// is not the primary any more. f changes nothing twice if it is run again.
//
// Where the first was silent, renewals and questions are sent again too, which may
// arrive twice. Acquires need a new ID, and whether a release ended the hold its repeat
// could not tell: that is the engine's. So f that is sent on another pool and does no
// harm twice is for stepAgain.
func (d *db) step(ctx context.Context, p *pool, f func(*conn) error) error {
	return d.steps(ctx, p, p == d.renewals || p == d.control, f)
}

// stepAgain is step for what may arrive twice.
func (d *db) stepAgain(ctx context.Context, p *pool, f func(*conn) error) error {
	return d.steps(ctx, p, true, f)
}

func (d *db) steps(ctx context.Context, p *pool, twice bool, f func(*conn) error) error {
	start := time.Now()
	for try := 1; ; try++ {
		d.control.warm(ctx)
		c, err := p.get(ctx)
		if err != nil {
			return err
		}
		err = f(c)
		c.put()
		n := number(err)
		tries := 3
		if n == erPacket { // each time half as large
			tries = 16
		}
		if try >= tries {
			return err
		}
		silent := errors.Is(err, errSilent)
		if !driver.IsNotApplied(classify("", err)) && !(silent && twice) {
			return err
		}
		switch {
		case silent:
		case n == erIdle, n == erPacket, errors.Is(err, sqldriver.ErrBadConn):
		case isElsewhere(err):
			d.moved()
			if n != erGroupRollback && c.opened.After(start) {
				return err // a connection of now says so too
			}
		default:
			return err
		}
	}
}

// slow runs f on the one acquire connection that carries what may be slow: pinned keys,
// reaping and force.
func (d *db) slow(ctx context.Context, f func(*conn) error) error {
	if err := d.takeSlow(ctx); err != nil {
		return err
	}
	defer d.giveSlow()
	return d.step(ctx, d.acquires, f)
}

// takeSlow waits for the right to use that connection; see giveSlow.
func (d *db) takeSlow(ctx context.Context) error {
	select {
	case d.slowSem <- struct{}{}:
		return nil
	case <-ctx.Done():
		return notSent("wait for a connection", ctx.Err())
	}
}

func (d *db) giveSlow() { <-d.slowSem }

// read runs f on the control connection. A KILL may be waiting for that, so at most one
// reader is before it.
func (d *db) read(ctx context.Context, f func(*conn) error) error {
	select {
	case d.inspectSem <- struct{}{}:
	case <-ctx.Done():
		return notSent("wait for a connection", ctx.Err())
	}
	defer func() { <-d.inspectSem }()
	return d.step(ctx, d.control, f)
}

// moved closes what is idle, and the rest after its use: the server that one connection
// led to says that it is not the primary, and the others are as old.
func (d *db) moved() {
	for _, p := range d.all() {
		p.renew()
	}
	d.statementLog.Store(nil)
}

// bounds are how long the tries of one step may stay unanswered. A takeover holds
// the row's lock while it waits for the old holder's guarded transaction, and
// everybody's statements on that key wait behind it: so it must not wait. The last
// try knows that none of its keys is locked, so what it may be waiting for is a
// slow server.
var bounds = [...]time.Duration{50 * time.Millisecond, 50 * time.Millisecond, 250 * time.Millisecond}

// bound is how long the n-th try may stay unanswered. Where the server is so slow
// that statements which wait for nobody come near the bound, ending them helps nobody:
// the bound is at least four times the usual time of an answer. However long that is,
// lockWait bounds the wait for a lock.
func (d *db) bound(n int) time.Duration {
	return max(bounds[n], 4*time.Duration(d.usual.Load()))
}

// noteAnswer notes how long an answer took, or that there was none for so long. An update
// that gets lost does no harm.
func (d *db) noteAnswer(took time.Duration) {
	old := d.usual.Load()
	d.usual.Store(old + (int64(took)-old)/16)
}
