package mysqllock

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/storekit"
)

// Store keeps locks in the tables of one database. It is safe for concurrent use;
// the clients of one process share one. Make it with Open or New.
type Store struct {
	db      *sql.DB
	own     bool // db is ours
	options Options
	names   names
	keep    strategy

	// Acquires may wait for other transactions, so they have connections of their
	// own. Releases and undos never do for long (see change in renew.go), but there may
	// be any number of them; a renewal that stands behind them is a lease that is lost,
	// so renewals have one of their own, and use those of releases that are free.
	acquires *lane
	releases *lane
	renewals *lane
	control  *lane

	transactions *transactions // the connections of InTx and Once
	onces        onces

	alone   chan struct{} // the right to use the one acquire connection for pinned keys, reaping and force
	looking chan struct{} // at most one Inspect stands in a KILL's way
	first   *storekit.FirstUse

	watchdog     *watchdog
	pace         atomic.Int64              // nanoseconds an answer usually takes
	trips        sync.Map                  // of *trip, by the server's name
	cannotKill   concluded                 // a proxy, whose numbers are not the server's
	doubt        atomic.Pointer[time.Time] // connections that were not heard of since may be dead; nil: none may. See silence.go
	culling      chan struct{}             // at most one looks through the pool
	packet       atomic.Int64              // a statement of more bytes was too large, although the server allows it; 0: none was
	home         atomic.Pointer[home]      // nil: not read yet
	statementLog atomic.Pointer[bool]      // the server's binary log has statements; nil: not read yet
	closed       atomic.Bool
	background   sync.WaitGroup
	life         context.Context // of what is opened in the background: until Close
	end          context.CancelFunc
	statements   atomic.Uint64
	keepAfter    int // the constant; tests change it
}

// strategy is what differs between the ways of keeping a lock.
type strategy interface {
	acquire(context.Context, []driver.Request) ([]driver.Result, error)
	renew(context.Context, []driver.Hold) ([]driver.Result, error)
	release(context.Context, []driver.Hold) ([]driver.Result, error)
	inspect(context.Context, []string) ([]driver.Info, error)
	list(ctx context.Context, prefix, after string, limit int) ([]driver.Info, error)
	force(ctx context.Context, key string) (driver.Info, error)
	reap(ctx context.Context, grace time.Duration) (int, error)
	limits() driver.Limits
	layout() []layout // the tables it uses

	// guards gives the lease rows whose index a guard of the hold locks; false: the
	// Store knows that the hold is over.
	guards(driver.Hold) (l *leases, live bool)
	close()
}

var (
	_ driver.Store   = (*Store)(nil)
	_ driver.Reaper  = (*Store)(nil)
	_ driver.Lister  = (*Store)(nil)
	_ driver.Forcer  = (*Store)(nil)
	_ driver.Closer  = (*Store)(nil)
	_ driver.Counter = (*Store)(nil)
	_ driver.Queuer  = (*Store)(nil)
	_ driver.Turner  = (*Store)(nil)
)

// Open makes a Store with a small pool of its own on the server that dsn names,
// in the form of github.com/go-sql-driver/mysql (user:password@tcp(host:3306)/database)
// or as a URL (mysql://user:password@host:3306/database); the database in it holds the
// lock tables. It does no I/O: a wrong address shows at the first use, or in Check. A
// network that was registered with that package (RegisterDialContext) can be used,
// except under the names tcp and unix, which the Store dials itself.
//
// A DSN or an option that cannot be used is an error that matches
// rowlock.ErrInvalid.
func Open(dsn string, o Options) (*Store, error) {
	config, err := parseDSN(dsn)
	if err != nil {
		return nil, err
	}
	config.Logger = &mysql.NopLogger{} // the driver's would write to stderr; we return what it says
	config.CheckConnLiveness = true
	config.RejectReadOnly = false     // it would hide the server's reason
	if config.MaxAllowedPacket == 0 { // the driver would ask the server, a trip that each connection makes anyway
		config.MaxAllowedPacket = 1 << 30
	}
	if config.Timeout == 0 {
		config.Timeout = 10 * time.Second
	}
	connector, err := newNetConnector(config)
	if err != nil {
		return nil, fmt.Errorf("%w: DSN: %w", driver.ErrInvalid, err)
	}
	db := sql.OpenDB(connector)
	s, err := newStore(db, o)
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	s.own = true
	return s, nil
}

// New makes a Store on the caller's pool. It takes up to Options.Connections and
// Options.WakeupConns connections out of it and keeps them until Close, SelectForUpdate one
// more for each key, InTx and Once one while they run; they never come back, because
// their settings are changed. The pool is not closed by the Store and must outlive
// it. It does no I/O.
//
// SetMaxOpenConns must leave room for all of them beside every connection that the
// program uses at once, or be 0. The Store's connections can be lost, and then it
// needs new ones: where the program's transactions have taken all, leases cannot be
// renewed, and Guard, MarkRun and LockTx wait for a connection that only the end of
// another transaction gives back; they do so for a second, see Guard. A Store that
// Open made does not depend on the program's pool.
//
// A pool that is nil or closed, one whose SetMaxOpenConns leaves too little beside
// the Store's connections, and a bad option are errors that match
// rowlock.ErrInvalid.
func New(db *sql.DB, o Options) (*Store, error) {
	if db == nil {
		return nil, fmt.Errorf("%w: the *sql.DB is nil", driver.ErrInvalid)
	}
	// A pool looks whether it is closed before it looks at the context.
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	if c, err := db.Conn(ended); err == nil {
		_ = c.Close()
	} else if !errors.Is(err, context.Canceled) {
		return nil, fmt.Errorf("%w: the *sql.DB cannot be used: %w", driver.ErrInvalid, err)
	}
	return newStore(db, o)
}

func newStore(db *sql.DB, o Options) (*Store, error) {
	o, err := o.fill()
	if err != nil {
		return nil, err
	}
	most, need := db.Stats().MaxOpenConnections, o.Connections+max(o.WakeupConns, 0)+spareConnections
	if most != 0 && most < need {
		return nil, fmt.Errorf("%w: the pool allows %d connections, but Options.Connections and WakeupConns make %d and %d more are left for your own transactions: SetMaxOpenConns(%d) or more, or fewer Connections",
			driver.ErrInvalid, most, need-spareConnections, spareConnections, need)
	}
	room := defaultWakeupConns
	if most != 0 {
		room = most - need
	}
	o.WakeupConns = o.wakeupConns(room)
	s := &Store{
		db: db, options: o, names: newNames(o.Prefix),
		keepAfter: keepAfter, alone: make(chan struct{}, 1), looking: make(chan struct{}, 1), first: storekit.NewFirstUse(), culling: make(chan struct{}, 1),
	}
	s.life, s.end = context.WithCancel(context.Background())
	s.watchdog = newWatchdog(s)
	s.transactions = &transactions{s: s}
	s.control = newLane(s, controlConnections)
	s.renewals = newLane(s, renewConnections)
	s.releases = newLane(s, o.releaseConnections())
	s.renewals.beyond = s.releases
	s.acquires = newLane(s, o.acquireConnections())
	switch o.Strategy {
	case VersionColumn:
		s.keep = newVersion(s)
	case UniqueInsert:
		s.keep = newUnique(s)
	case SelectForUpdate:
		if s.keep, err = newForUpdate(s); err != nil {
			return nil, err
		}
	default:
		return nil, fmt.Errorf("%w: %s is no strategy", driver.ErrInvalid, o.Strategy)
	}
	return s, nil
}

// Close closes the Store's connections, and its pool if Open made it. Close the
// clients first: a hold that is still there ends by its TTL. Calls after it fail
// with an error that matches rowlock.ErrClosed. Close may be called again.
func (s *Store) Close() error {
	if s.closed.Swap(true) {
		return nil
	}
	s.end()
	s.keep.close()
	s.transactions.close()
	s.acquires.close()
	s.renewals.close()
	s.releases.close()
	s.background.Wait()
	s.control.close()
	if s.own {
		return s.db.Close()
	}
	return nil
}

// Statements implements driver.Counter: the statements sent to the server since
// the Store was made.
func (s *Store) Statements() uint64 { return s.statements.Load() }

// Limits implements driver.Store.
func (s *Store) Limits() driver.Limits { return s.keep.limits() }

// Acquire implements driver.Store.
func (s *Store) Acquire(ctx context.Context, reqs []driver.Request) ([]driver.Result, error) {
	var session chan struct{} // nil: none is started
	if f, ok := s.keep.(*forUpdate); ok && len(reqs) > 0 && !s.first.Passed() && !s.closed.Load() {
		session = f.sessions.ahead(reqs[0].TTL)
	}
	if err := s.ready(ctx); err != nil || len(reqs) == 0 {
		return nil, err
	}
	if session != nil {
		select {
		case <-session:
		case <-ctx.Done(): // which the attempt sees
		}
	}
	return s.keep.acquire(ctx, reqs)
}

// Renew implements driver.Store.
func (s *Store) Renew(ctx context.Context, holds []driver.Hold) ([]driver.Result, error) {
	if err := s.ready(ctx); err != nil || len(holds) == 0 {
		return nil, err
	}
	return s.keep.renew(ctx, holds)
}

// Release implements driver.Store.
func (s *Store) Release(ctx context.Context, holds []driver.Hold) ([]driver.Result, error) {
	if err := s.ready(ctx); err != nil || len(holds) == 0 {
		return nil, err
	}
	return s.keep.release(ctx, holds)
}

// Inspect implements driver.Store. Pinned is set only where one key is asked for.
func (s *Store) Inspect(ctx context.Context, keys []string) ([]driver.Info, error) {
	if err := s.ready(ctx); err != nil || len(keys) == 0 {
		return nil, err
	}
	return s.keep.inspect(ctx, keys)
}

// step runs f on a connection of the lane, and again on another where the first
// turned out to be dead before anything was sent on it, or to lead to a server that
// is not the primary any more. f changes nothing twice if it is run again.
//
// Where the first was silent, renewals and questions are sent again too, which may
// arrive twice. Acquires need a new ID, and whether a release ended the hold its repeat
// could not tell: that is the engine's. So f that is sent on another lane and does no
// harm twice is for stepAgain.
func (s *Store) step(ctx context.Context, l *lane, f func(*conn) error) error {
	return s.steps(ctx, l, l == s.renewals || l == s.control, f)
}

// stepAgain is step for what may arrive twice.
func (s *Store) stepAgain(ctx context.Context, l *lane, f func(*conn) error) error {
	return s.steps(ctx, l, true, f)
}

func (s *Store) steps(ctx context.Context, l *lane, twice bool, f func(*conn) error) error {
	start := time.Now()
	for try := 1; ; try++ {
		s.control.keep(ctx)
		c, err := l.get(ctx)
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
			s.moved()
			if n != erGroupRollback && c.opened.After(start) {
				return err // a connection of now says so too
			}
		default:
			return err
		}
	}
}

// moved closes what rests: the server that one connection led to says that it is
// not the primary, and the others are as old.
func (s *Store) moved() {
	for _, l := range []*lane{s.acquires, s.renewals, s.releases, s.control} {
		l.closeIdle()
		l.mu.Lock()
		l.keepFrom = time.Time{} // the next one is opened before what it may have to KILL
		l.mu.Unlock()
	}
	s.transactions.closeIdle()
	s.statementLog.Store(nil)
	switch keep := s.keep.(type) {
	case *forUpdate:
		keep.sessions.closeIdle()
	case *leases:
		if keep.locks != nil {
			keep.locks.renew()
		}
	}
}
