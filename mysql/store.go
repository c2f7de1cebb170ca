package mysqllock

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/dsn"
	"github.com/rowlock/rowlock/mysql/internal/conn"
	"github.com/rowlock/rowlock/mysql/internal/getlock"
	"github.com/rowlock/rowlock/mysql/internal/guarded"
	"github.com/rowlock/rowlock/mysql/internal/locktx"
	"github.com/rowlock/rowlock/mysql/internal/row"
	"github.com/rowlock/rowlock/mysql/internal/session"
	"github.com/rowlock/rowlock/mysql/internal/share"
)

// Store keeps locks in the tables of one database. It is safe for concurrent use;
// the clients of one process share one. Make it with Open or New.
//
// # Methods for programs
//
// Migrate, Check and Close. Guard, InTx, Once, MarkRun and ReapRuns, for transactions under a
// lease; LockTx, LockTxNoWait and LockTxWait, for transactions without one. List,
// ForceRelease and Reap, which a Client has too.
//
// # Methods for the engine
//
// Acquire, AcquireWait, Explain, HoldLimit, Inspect, Limits, Look, Release, Renew, Statements and
// WaitTurn implement package driver: a rowlock.Client calls them, and nobody else needs to.
type Store struct {
	db       *conn.DB
	options  Options
	names    names
	strategy strategy
	address  string         // database and server; empty: not known
	locks    *getlock.Locks // nil: no named lock wakes those who wait

	guarded *guarded.Transactions
	lockTx  *locktx.Locker

	firstUse *conn.FirstUse // of the check
	checked  atomic.Bool    // the check of the first use has passed
	closed   atomic.Bool
}

// strategy is what differs between the ways of keeping a lock.
type strategy interface {
	Acquire(context.Context, []driver.Request) ([]driver.Result, error)
	Renew(context.Context, []driver.Hold) ([]driver.Result, error)
	Release(context.Context, []driver.Hold) ([]driver.Result, error)
	Inspect(context.Context, []string) ([]driver.Info, error)
	List(ctx context.Context, prefix, after string, limit int) ([]driver.Info, error)
	Force(ctx context.Context, key string, seen *driver.Info) (driver.Info, error) // seen: only that hold; nil: any
	Reap(ctx context.Context, grace time.Duration) (int, error)
	Limits() driver.Limits
	Layout() []row.Layout // the tables it uses
	Touch() string        // a statement that shows whether a commit goes through

	Guards(driver.Hold) (l *share.Table, live bool) // see guarded.Strategy
	Close()
}

var (
	_ driver.Store      = (*Store)(nil)
	_ driver.Reaper     = (*Store)(nil)
	_ driver.Lister     = (*Store)(nil)
	_ driver.Forcer     = (*Store)(nil)
	_ driver.ForcerIf   = (*Store)(nil)
	_ driver.MarkLister = (*Store)(nil)
	_ driver.Closer     = (*Store)(nil)
	_ driver.Counter    = (*Store)(nil)
	_ driver.Queuer     = (*Store)(nil)
	_ driver.Turner     = (*Store)(nil)
	_ driver.Explainer  = (*Store)(nil)

	_ driver.HoldLimiter = (*Store)(nil)
	_ driver.Liner       = (*Store)(nil)
)

// Open makes a Store with a small pool of its own on the server that dsn names,
// in the form of github.com/go-sql-driver/mysql (user:password@tcp(host:3306)/database)
// or as a URL (mysql://user:password@host:3306/database); the database in it holds the
// lock tables. It does no I/O: a wrong address shows at the first use, or in Check. A
// network that was registered with that package (RegisterDialContext) can be used,
// except under the names tcp and unix, which the Store dials itself.
//
// A DSN or an option that cannot be used is an error that matches
// rowlock.ErrInvalid, which has no part of the password in it. White space at the ends of the DSN
// or of what it names, and control characters in it, cannot be used.
func Open(dsn string, o Options) (*Store, error) {
	config, err := poolConfig(dsn)
	if err != nil {
		return nil, err
	}
	return openPool(config, o)
}

// OpenConfig is [Open] by fields instead of a text, for a user and a password of any characters, or a tls.Config. The
// Config is copied. What Open does not take is refused here too, with an error that matches rowlock.ErrInvalid, and so is nil.
func OpenConfig(config *mysql.Config, o Options) (*Store, error) {
	if config == nil {
		return nil, fmt.Errorf("%w: the *mysql.Config is nil: mysql.NewConfig makes one", driver.ErrInvalid)
	}
	if err := dsn.Check(config); err != nil {
		return nil, fmt.Errorf("%w: Config: %w", driver.ErrInvalid, err)
	}
	return openPool(forPool(config.Clone()), o)
}

// openPool makes a Store with a pool of its own.
func openPool(config *mysql.Config, o Options) (*Store, error) {
	connector, err := conn.NewConnector(config)
	if err != nil {
		return nil, fmt.Errorf("%w: DSN: %w", driver.ErrInvalid, err)
	}
	if o.FewConnections {
		conn.Patient(connector)
	}
	pool := sql.OpenDB(connector)
	s, err := newStore(pool, true, config.DBName, o)
	if err != nil {
		return nil, errors.Join(err, pool.Close())
	}
	s.db.Connecting = conn.Connecting(connector)
	s.address = addressOf(config)
	return s, nil
}

// poolConfig is how a Store's own pool connects to the server that a DSN names.
func poolConfig(text string) (*mysql.Config, error) {
	if text == "" { // the driver would take the server of this machine
		return nil, fmt.Errorf("%w: the DSN is empty: it has the form %s", driver.ErrInvalid, dsn.Form)
	}
	config, err := dsn.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("%w: DSN: %w", driver.ErrInvalid, err)
	}
	return forPool(config), nil
}

// forPool sets what a Store's own pool needs.
func forPool(config *mysql.Config) *mysql.Config {
	config.Logger = &mysql.NopLogger{} // the driver's would write to stderr; we return what it says
	config.CheckConnLiveness = true
	config.RejectReadOnly = false     // it would hide the server's reason
	if config.MaxAllowedPacket == 0 { // the driver would ask the server, a trip that each connection makes anyway
		config.MaxAllowedPacket = 1 << 30
	}
	if config.Timeout == 0 {
		config.Timeout = 10 * time.Second
	}
	return config
}

// New makes a Store on the caller's pool. It takes up to Options.Connections and
// Options.WakeupConns connections out of it and keeps them until Close, SelectForUpdate one
// more for each key, InTx and Once one while they run; they never come back, because
// their settings are changed. What others have used may be in any state, so each is dialled
// for the Store: what is idle in the pool is taken out for as long, and is given back as it
// was. The lock tables are in the default database of the first of them. (Where the pool is
// used up what comes back is taken, and cleaned.) The pool is not closed by the Store and
// must outlive it. New does no I/O.
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
	return newStore(db, false, "", o)
}

// newStore makes a Store on a pool. database is where the lock tables are, empty: in the default one of the pool.
func newStore(pool *sql.DB, own bool, database string, o Options) (*Store, error) {
	o, err := o.fill()
	if err != nil {
		return nil, err
	}
	most := pool.Stats().MaxOpenConnections
	if o.Strategy == SelectForUpdate {
		o.WakeupConns = -1
	}
	need := o.Connections + max(o.WakeupConns, 0) + spareConnections
	if most != 0 && most < need {
		return nil, fmt.Errorf("%w: the pool allows %d connections, but Options.Connections and WakeupConns make %d and %d more are left for your own transactions: SetMaxOpenConns(%d) or more, or fewer Connections",
			driver.ErrInvalid, most, need-spareConnections, spareConnections, need)
	}
	room := defaultWakeupConns
	if most != 0 {
		room = most - need
	}
	o.WakeupConns = o.wakeupConns(room)
	s := &Store{options: o, names: newNames(o.Prefix)}
	s.db = conn.NewDB(conn.DBOptions{SQL: pool, Own: own, Prefix: o.Prefix, Tables: s.names.all(), Database: database, Acquires: o.acquireConnections(), Releases: o.releaseConnections(), Few: o.FewConnections})
	s.firstUse = conn.NewFirstUse(s.db)
	switch o.Strategy {
	case VersionColumn:
		s.strategy = share.New(row.NewVersion(s.db, s.names.version), s.names.share)
	case UniqueInsert:
		s.strategy = share.New(row.NewUnique(s.db, s.names.unique), s.names.shareUnique)
	case SelectForUpdate:
		if s.strategy, err = session.NewForUpdate(s.db, session.Config{Leases: s.names.session, Rows: s.names.sessionRow, Shares: s.names.shareSession, Connections: o.Connections, Spare: spareConnections}); err != nil {
			return nil, err
		}
	default:
		return nil, fmt.Errorf("%w: %s is no strategy", driver.ErrInvalid, o.Strategy)
	}
	s.guarded = guarded.New(guarded.Config{Store: s, DB: s.db, Strategy: s.strategy, Runs: s.names.run, Ready: s.ready})
	s.lockTx = locktx.New(s.db, s.names.tx, s.ready)
	if o.WakeupConns > 0 {
		s.locks = getlock.NewLocks(s.db, o.WakeupConns, s.strategy.Layout()[0].Table)
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
	s.strategy.Close()
	if s.locks != nil {
		s.locks.Close()
	}
	return s.db.Close()
}

// Explain is called by the Client that rowlock.New makes. It implements driver.Explainer: the program's pool has no connection to give.
func (s *Store) Explain() error { return s.db.Explain() }

// Statements is called by the Client that rowlock.New makes. It implements driver.Counter: the statements sent to the server since
// the Store was made.
func (s *Store) Statements() uint64 { return s.db.Statements.Load() }

// Limits is called by the Client that rowlock.New makes. It implements driver.Store.
func (s *Store) Limits() driver.Limits {
	l := s.strategy.Limits()
	l.Line = !l.Queue
	l.Turns = s.locks != nil
	return l
}

// HoldLimit is called by the Client that rowlock.New makes. It implements driver.HoldLimiter: an exclusive hold of SelectForUpdate is a connection, so the
// pool that was given to New bounds their number.
func (s *Store) HoldLimit() int {
	if f, ok := s.strategy.(*session.ForUpdate); ok {
		return f.HoldLimit()
	}
	return 0
}

// Renew is called by the Client that rowlock.New makes. It implements driver.Store.
func (s *Store) Renew(ctx context.Context, holds []driver.Hold) ([]driver.Result, error) {
	if err := s.ready(ctx); err != nil || len(holds) == 0 {
		return nil, err
	}
	return s.strategy.Renew(ctx, holds)
}

// Release is called by the Client that rowlock.New makes. It implements driver.Store.
func (s *Store) Release(ctx context.Context, holds []driver.Hold) ([]driver.Result, error) {
	if err := s.ready(ctx); err != nil || len(holds) == 0 {
		return nil, err
	}
	return s.strategy.Release(ctx, holds)
}

// Inspect is called by the Client that rowlock.New makes. It implements driver.Store. Pinned is set only where one key is asked for.
func (s *Store) Inspect(ctx context.Context, keys []string) ([]driver.Info, error) {
	if err := s.ready(ctx); err != nil || len(keys) == 0 {
		return nil, err
	}
	return s.strategy.Inspect(ctx, keys)
}
