package mongolock

import (
	"context"
	"fmt"
	"regexp"
	"sync/atomic"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/input"
	"github.com/rowlock/rowlock/mongo/internal/command"
	"github.com/rowlock/rowlock/mongo/internal/fence"
)

const (
	// maxBatch is the largest number of keys in one command. A renewal costs the server
	// so little that more of them fit into one.
	maxBatch    = 500
	maxRenewals = 750

	// blockWait is how long an idle server may work on one key, and wait for the open
	// transaction of somebody else that has written the same document: its
	// maxTimeMS. partWait is the same for a key of a batch that was stopped, and
	// fenceWait for the fence of one of several keys. A server that is seen to take
	// longer gets more (command.Limit).
	blockWait = 50 * time.Millisecond
	partWait  = command.MinWait
	fenceWait = 10 * time.Millisecond

	// lastWait is the limit of the second try for a key that looks free although the
	// first one took too long.
	lastWait = 500 * time.Millisecond

	// undoWait is the same for an undo. It is longer, because an undo also waits
	// for the attempt it takes back, if that is still running.
	undoWait = 250 * time.Millisecond
)

// Store keeps locks in a collection. It is safe for concurrent use; the clients of one
// process share one. Make it with New.
//
// # Methods for programs
//
// Migrate, Check and Close. Guard, InTx, Once, MarkRun and ReapRuns, for transactions under a
// lease; LockTx and WaitTx, for transactions without one. List, ForceRelease and Reap,
// which a Client has too.
//
// # Methods for the engine
//
// Acquire, Explain, Inspect, Limits, Look, Release, Renew, Statements and Watch implement
// package driver: a rowlock.Client calls them, and nobody else needs to.
type Store struct {
	cmd    *command.Runner
	db     *mongo.Database
	leases string // the collection of New
	fences string
	runs   string
	txs    string
	o      Options

	firstUse   *firstUse
	closed     atomic.Bool
	sessions   *command.Sessions
	txSessions fence.Sessions // in which InTx and Once run
	fence      *fence.Fences
	tooOld     tooOld
	crowd      recent[string]        // keys for which somebody stood a moment ago
	shares     recent[string]        // those of them for which readers or slots did
	stopped    recent[driver.HoldID] // holds that a release may have ended which was stopped: others may have been passed their keys
	unsure     recent[driver.HoldID] // requests of which more may arrive than an undo overtakes
	limits     struct{ renew, release, acquire, numbered, alike, inLine command.Limit }
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
	_ driver.Waiter     = (*Store)(nil)
	_ driver.Liner      = (*Store)(nil)

	_ driver.Explainer = (*Store)(nil)
)

var plainName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,99}$`)

// New makes a Store on coll and three collections beside it, named like coll with
// _fence, _runs and _tx after it; [Store.Migrate] creates them. It does no I/O:
// the first use checks the server, see [Store.Check]. Two Stores exclude each
// other if and only if they name the same collection of the same cluster.
//
// Of coll only client, database and name are used; its read preference, its
// read and write concern, its registry and BSON options are not, nor are they changed. The commands share the
// connection pool of its client, at most 13 at a time and one for each running InTx
// or Once. The pool (maxPoolSize, default 100) must allow at least 4, which the first
// use and Check look at; one that other work keeps exhausted makes renewals late. The
// client is not closed by the Store.
//
// It fails with ErrInvalid if coll is nil, if its name is anything but letters,
// digits and underscores (at most 100, no digit first), and if the name of its database
// has a control character in it, or white space at its ends: the server would take
// "app\n" for a database of its own.
func New(coll *mongo.Collection, o Options) (*Store, error) {
	if coll == nil {
		return nil, fmt.Errorf("%w: mongolock.New needs a collection, got nil", driver.ErrInvalid)
	}
	name := coll.Name()
	if !plainName.MatchString(name) {
		return nil, fmt.Errorf("%w: collection name %q: use 1 to 100 letters, digits and underscores, not beginning with a digit", driver.ErrInvalid, name)
	}
	if fault := input.Fault(coll.Database().Name()); fault != "" {
		return nil, fmt.Errorf("%w: the database's name %q %s: leave it out", driver.ErrInvalid, coll.Database().Name(), fault)
	}
	db := command.Database(coll.Database().Client(), coll.Database().Name())
	s := &Store{
		db:       db,
		leases:   name,
		fences:   name + "_fence",
		runs:     name + "_runs",
		txs:      name + "_tx",
		o:        o,
		firstUse: newFirstUse(),
		cmd:      command.New(db, name, name+"_fence", name+"_runs", name+"_tx"),
		sessions: command.NewSessions(db.Client()),
	}
	if o.FewConnections {
		s.cmd.FewConnections()
	}
	s.fence = fence.New(s.cmd, s.sessions, s.fences)
	return s, nil
}

// Limits is called by the Client that rowlock.New makes. It implements driver.Store.
func (s *Store) Limits() driver.Limits {
	return driver.Limits{
		Batch: maxBatch, Renewals: maxRenewals, MinTTL: 20 * time.Millisecond, LockWait: time.Second,
		Modes:    driver.ModesOf(driver.Shared, driver.Slot),
		Line:     true,
		InFlight: 1, SlowBatch: 50 * time.Millisecond, // one batch at a time is best: the server is busy with documents, not with waiting
	}
}

// Statements is called by the Client that rowlock.New makes. It implements driver.Counter: the commands sent since New, without
// those that the driver sends by itself (monitoring, authentication).
func (s *Store) Statements() uint64 { return s.cmd.Sent() }

// Explain is called by the Client that rowlock.New makes. It implements driver.Explainer: a pool that other work keeps exhausted lets a
// command wait for as long as its context lasts, and says nothing.
func (s *Store) Explain() error { return s.cmd.Explain() }

// Close ends the Store's sessions on the server, which takes at most a second,
// and makes every later call fail with ErrClosed. It leaves the client alone and
// releases no lock: close the rowlock Client first. Closing twice is harmless.
func (s *Store) Close() error {
	if s.closed.Swap(true) {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	s.endSessions(ctx, append(s.sessions.Close(), s.txSessions.Close()...))
	s.cmd.Close()
	return nil
}

// endSessions tells the server what it may forget. Without an answer it ends them
// by itself after 30 minutes.
func (s *Store) endSessions(ctx context.Context, ids []bson.Raw) {
	if len(ids) > 0 {
		_, _ = s.cmd.Send(ctx, nil, bson.D{{Key: "endSessions", Value: ids}}, 0)
	}
}

// enter is the beginning of every call: n keys are about to be sent.
func (s *Store) enter(ctx context.Context, doing string, n int) error {
	return s.enterMany(ctx, doing, n, maxBatch)
}

func (s *Store) enterMany(ctx context.Context, doing string, n, most int) error {
	if err := s.open(ctx, doing); err != nil {
		return err
	}
	if n > most {
		return &driver.Error{Lasting: true, NotApplied: true,
			Err: fmt.Errorf("%w: %s of %d keys in one call: at most %d", driver.ErrInvalid, doing, n, most)}
	}
	if err := s.firstUse.do(ctx, s.check); err != nil {
		// The check changes nothing, whatever became of it.
		return &driver.Error{Lasting: driver.IsLasting(err), NotApplied: true, Err: err}
	}
	return nil
}

// open refuses a closed Store and a context that is over.
func (s *Store) open(ctx context.Context, doing string) error {
	if s.closed.Load() {
		return &driver.Error{Lasting: true, NotApplied: true, Err: fmt.Errorf("mongo: %s on %s: %w", doing, s, driver.ErrClosed)}
	}
	if err := ctx.Err(); err != nil {
		return &driver.Error{NotApplied: true, Err: fmt.Errorf("mongo: %s on %s: %w", doing, s, err)}
	}
	return nil
}

// String is the collection's full name, for messages.
func (s *Store) String() string { return s.cmd.String() }

// validKey refuses what can be no key, where no engine has looked at it before.
func validKey(key string) error {
	if len(key) < 1 || len(key) > driver.MaxKey {
		return &driver.Error{Lasting: true, NotApplied: true,
			Err: fmt.Errorf("%w: a key of %d bytes: use 1 to %d", driver.ErrInvalid, len(key), driver.MaxKey)}
	}
	return nil
}
