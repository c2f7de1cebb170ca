package conn

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rowlock/rowlock/internal/work"
)

// DB is the way of one Store to its server: its pools, and what was learned of the server.
type DB struct {
	SQL    *sql.DB
	own    bool     // sql is the Store's
	prefix string   // of the lock tables
	tables []string // their names

	// Connecting says what new connections wait for; nil: nobody knows.
	Connecting func() error

	home    atomic.Pointer[place]     // where they are; nil: not known yet
	movedAt atomic.Pointer[time.Time] // when the server was last found to be another; nil: never
	refused atomic.Value              // map[string]bool: settings that the server does not let be set
	lacks   atomic.Bool               // the server does not know the rare ones

	lanes // see lanes.go
	rests rests

	slowSem    chan struct{} // the right to use the one acquire connection for what may be slow
	inspectSem chan struct{} // at most one Inspect is in a KILL's way

	watchdog     *watchdog
	Abandoned    abandoned
	Usual        atomic.Int64              // nanoseconds an answer usually takes
	trips        sync.Map                  // of *trip, by the server's name
	CannotKill   Conclusion                // a proxy, whose numbers are not the server's
	doubt        atomic.Pointer[time.Time] // connections that were not heard of since may be dead; nil: none may. See silence.go
	packet       atomic.Int64              // a statement of more bytes was too large, although the server allows it; 0: none was
	serverValues atomic.Pointer[settings]  // of the server; nil: not read yet
	Statements   atomic.Uint64             // sent
	Blocked      atomic.Uint64             // of them those that were kept waiting for all of their time: ErrBlocked
	KeepAfter    int                       // the constant; a test may change it

	Background work.Group      // what runs beside the calls: see Work
	life       context.Context // of what runs in the background: until close
	end        context.CancelFunc

	mu      sync.Mutex
	pools   []*Pool
	servers map[string]time.Time // when the last connection to each was ready, by Conn.Server; see movedaddress.go
}

// Connections that are not divided among acquires and releases.
const (
	ControlConnections = 1
	RenewConnections   = 1
)

// DBOptions are what a Store tells its db.
type DBOptions struct {
	SQL                *sql.DB
	Own                bool
	Prefix             string
	Tables             []string // the names of the lock tables
	Database           string   // in which they are, as the DSN names it; empty: the default one of the program's pool
	Acquires, Releases int      // connections
	Few                bool     // these are all there are: see lanes.go
}

// NewDB makes the pools. It does no I/O.
func NewDB(o DBOptions) *DB {
	d := &DB{
		SQL: o.SQL, own: o.Own, prefix: o.Prefix, tables: o.Tables, KeepAfter: KeepAfter,
		slowSem: make(chan struct{}, 1), inspectSem: make(chan struct{}, 1),
	}
	if o.Database != "" {
		d.home.Store(&place{schema: o.Database})
	}
	d.life, d.end = context.WithCancel(context.Background())
	d.watchdog = newWatchdog(d)
	d.Abandoned.most = ControlConnections + RenewConnections + o.Acquires + o.Releases
	d.makeLanes(o)
	return d
}

// Close closes all connections, the control connection last: what ends in the background
// may have something to KILL.
func (d *DB) Close() error {
	d.end()
	for _, p := range d.all() {
		if p != d.Control {
			p.Close()
		}
	}
	d.Background.Wait()
	d.Control.Close()
	if d.own {
		return d.SQL.Close()
	}
	return nil
}

func (d *DB) all() []*Pool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.pools
}

// Work runs f in the background; Close waits for what was begun before it.
func (d *DB) Work(f func()) { d.Background.Fork(f) }

// begin is Work for a singleflight.Group: also what is begun while the Store closes gets an answer.
func (d *DB) begin(f func()) bool {
	d.Work(f)
	return true
}

// Step runs f on a connection of the pool, and again on another where the first
// turned out to be dead before anything was sent on it, or to lead to a server that
// is not the primary any more. f changes nothing twice if it is run again.
//
// Where the first was silent, or was closed before the answer, it is not run again: acquires need a new ID, and whether
// a release ended the hold its repeat could not tell. That is the engine's.
func (d *DB) Step(ctx context.Context, p *Pool, f func(*Conn) error) error {
	return d.steps(ctx, p, false, f)
}

// StepAgain is Step for what does no harm when it arrives twice, as renewals and questions: it is run again there too.
func (d *DB) StepAgain(ctx context.Context, p *Pool, f func(*Conn) error) error {
	return d.steps(ctx, p, true, f)
}

func (d *DB) steps(ctx context.Context, p *Pool, twice bool, f func(*Conn) error) error {
	start := time.Now()
	for try := 1; ; try++ {
		d.warmFor(ctx, p)
		c, err := p.Get(ctx)
		if err != nil {
			return err
		}
		if c.Ready.After(start) && !c.timeForAnswer(ctx) {
			c.Put()
			return NotSent("send", fmt.Errorf("%w: a connection was opened, and no time is left for a statement on it", context.DeadlineExceeded))
		}
		err = f(c)
		// Not c.Broken: f marks a connection as broken too, because of what it leads to.
		cut := err != nil && c.lost && Number(err) == 0 && ctx.Err() == nil // while a statement was under way
		c.Put()
		n := Number(err)
		tries := 3
		if n == erPacket { // each time half as large
			tries = 16
		}
		if try >= tries {
			return err
		}
		unanswered := errors.Is(err, ErrSilent) || cut
		if !Undone(err) && !(unanswered && twice) {
			return err
		}
		switch {
		case unanswered:
		case n == ErIdle, n == erPacket, errors.Is(err, sqldriver.ErrBadConn), ofSession[n]:
		case IsElsewhere(err):
			d.Moved()
			if n != ErGroupRollback && c.Opened.After(start) {
				return err // a connection of now says so too
			}
		default:
			return err
		}
	}
}

// timeForAnswer reports whether a statement may be answered before ctx ends. Where it cannot be, it is not sent: cut off it would
// take its connection with it, and the next try would have to open one again, for which it may have no more time than this one.
func (c *Conn) timeForAnswer(ctx context.Context) bool {
	deadline, ends := ctx.Deadline()
	return !ends || time.Until(deadline) >= c.ShortestAnswer()*3/2
}

// warmFor sees to it that the control connection is there before a statement is sent from a
// pool. A renewal does not wait for it for long.
func (d *DB) warmFor(ctx context.Context, p *Pool) {
	if p == d.Control {
		return // what ends its statements is opened when one is late
	}
	most := KillWait
	if p == d.Renewals {
		most = renewWarm
	}
	d.Control.Warm(ctx, most)
}

// Slow runs f on the one acquire connection that carries what may be slow: pinned keys,
// reaping and force.
func (d *DB) Slow(ctx context.Context, f func(*Conn) error) error {
	if err := d.TakeSlow(ctx); err != nil {
		return err
	}
	defer d.GiveSlow()
	return d.Step(ctx, d.Acquires, f)
}

// RemoveRow sends a DELETE of one row and tells how many went. A row that somebody is
// using stays. Each is one turn on the slow connection, so that a pinned key need not
// wait for all.
func (d *DB) RemoveRow(ctx context.Context, statement string) (removed int, err error) {
	err = d.Slow(ctx, func(c *Conn) error {
		res, err := c.Exec(ctx, d.Bound(0), statement)
		if err != nil {
			return err
		}
		n, err := res.RowsAffected()
		removed = int(n)
		return err
	})
	if errors.Is(err, ErrBlocked) {
		err = nil
	}
	return removed, err
}

// TakeSlow waits for the right to use that connection; see GiveSlow.
func (d *DB) TakeSlow(ctx context.Context) error {
	select {
	case d.slowSem <- struct{}{}:
		return nil
	case <-ctx.Done():
		return NotSent("wait for a connection", d.overdue(ctx))
	}
}

// GiveSlow gives the right back that TakeSlow took.
func (d *DB) GiveSlow() { <-d.slowSem }

// Read runs f on the control connection, and again while a lock on a table keeps it waiting: see WhileLocked.
func (d *DB) Read(ctx context.Context, f func(*Conn) error) error {
	return WhileLocked(ctx, func() error { return d.readOnce(ctx, f) })
}

// WhileLocked runs a step of plain SELECTs, and again for as long as a lock on a table (LOCK TABLES, an ALTER TABLE that waits
// for its turn) kept it waiting for all of a statement's time: until ctx ends. A plain SELECT waits for nothing else, but where
// the server is a node of Galera whose wsrep_sync_wait is set. The step may be run any number of times. It is not for what the
// caller's open transaction waits for: the ALTER TABLE may be waiting for that one.
func WhileLocked(ctx context.Context, step func() error) error {
	for locked := false; ; {
		err := step()
		switch {
		case Number(err) == ErLockWait:
			locked = true
		case err == nil, !locked, ctx.Err() == nil:
			return err
		}
		if !Pause(ctx, 10*time.Millisecond) {
			return fmt.Errorf("%w: another session has locked the table (LOCK TABLES, or an ALTER TABLE that waits for its turn): SHOW FULL PROCESSLIST shows which; or a node of Galera with wsrep_sync_wait is behind", ctx.Err())
		}
	}
}

// readOnce is one try of Read. A KILL may be waiting for the connection, so at most one reader is before it.
func (d *DB) readOnce(ctx context.Context, f func(*Conn) error) error {
	select {
	case d.inspectSem <- struct{}{}:
	case <-ctx.Done():
		return NotSent("wait for a connection", d.overdue(ctx))
	}
	defer func() { <-d.inspectSem }()
	return d.StepAgain(ctx, d.Control, f)
}

// Moved closes what is idle, and the rest after its use: the server that one connection
// led to says that it is not the primary, and the others are as old.
func (d *DB) Moved() {
	now := time.Now()
	d.movedAt.Store(&now)
	for _, p := range d.all() {
		p.renew()
	}
	d.watchdog.mu.Lock()
	d.watchdog.hurry(time.Now())
	d.watchdog.mu.Unlock()
	d.serverValues.Store(nil)
	d.refused.Store(map[string]bool{})
	d.lacks.Store(false)
}

// knownToLead reports whether the server was found to be another since c was opened, so that c most likely leads to the old one.
func (d *DB) knownToLead(c *Conn) bool {
	moved := d.movedAt.Load()
	return moved != nil && !c.Opened.After(*moved)
}

// Bounds are how long the tries of one step may stay unanswered. A takeover holds
// the row's lock while it waits for the old holder's guarded transaction, and
// everybody's statements on that key wait behind it: so it must not wait. The last
// try knows that none of its keys is locked, so what it may be waiting for is a
// slow server.
var Bounds = [...]time.Duration{50 * time.Millisecond, 50 * time.Millisecond, 250 * time.Millisecond}

// Bound is how long the n-th try may stay unanswered. Where the server is so slow
// that statements which wait for nobody come near the bound, ending them helps nobody:
// the bound is at least four times the usual time of an answer. However long that is,
// LockWait bounds the wait for a lock.
func (d *DB) Bound(n int) time.Duration {
	return max(Bounds[n], 4*time.Duration(d.Usual.Load()))
}

// NoteAnswer notes how long an answer took, or that there was none for so long. An update
// that gets lost does no harm.
func (d *DB) NoteAnswer(took time.Duration) {
	old := d.Usual.Load()
	d.Usual.Store(old + (int64(took)-old)/16)
}
