package mysqllock

import (
	"fmt"
	"regexp"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/mysql/internal/conn"
)

// Options says how a Store keeps its locks. The zero value is good.
type Options struct {
	// Strategy is how a lock is kept; VersionColumn by default. Two strategies are
	// two lock spaces: a key held under one is free under the other.
	Strategy Strategy

	// Prefix begins the names of the tables: rowlock by default, which gives
	// rowlock_version, rowlock_unique and so on. A letter or underscore, then at most
	// 40 letters, digits and underscores. Two prefixes are two lock spaces.
	Prefix string

	// SingleWriter says that of several servers which all take writes (Galera, a group of several primaries) this
	// Store and all others are led to one, and that connections to the one before are cut when that changes.
	// Without it SelectForUpdate refuses such servers, because their row locks are local to each: a key would be
	// granted twice. Guards, Shared, Slots and LockTx need the same there, and cannot tell; with the other strategies it only ends a warning of Cluster and Doctor.
	// No effect elsewhere.
	SingleWriter bool

	// Connections is the most connections this Store uses, at least 4; 8 by default.
	// One of them ends statements that wait too long and reads for Inspect, one
	// carries renewals only, two releases (one where there are fewer than 6), the rest
	// acquires; pinned keys, reaping and force release share one of the rest. SelectForUpdate needs one more for each key that
	// is held exclusively or waited for, and each InTx or Once one while it runs.
	Connections int

	// WakeupConns is how many more connections may be used to wake those who wait for a key
	// of VersionColumn or UniqueInsert: 2 by default, negative: none. Each carries one key
	// that several processes want, whose waiters queue for a lock of the server by
	// name (GET_LOCK): a release wakes the next within a millisecond or two, in the order in
	// which they came. Keys beyond that number are probed for. It only wakes: who has the key
	// is still decided by its row, and a process without it gets the key too, later. A pool
	// given to New that has no room for them gives fewer by default. SelectForUpdate has
	// the server's queue: it uses them only while callers wait with rowlock.Fair, and has none
	// on a pool that is bounded.
	WakeupConns int
}

// Strategy is how MySQL keeps a lock.
type Strategy uint8

const (
	// VersionColumn keeps one row a key for ever; its token is the version that each
	// grant raises. Acquire and release are one statement each.
	VersionColumn Strategy = iota

	// UniqueInsert keeps a row only while the key is locked: the primary key is the
	// lock, release deletes the row. Acquire reads its token in a second statement.
	UniqueInsert

	// SelectForUpdate keeps a row lock on a session of its own, so that a holder whose
	// process dies frees the key at once. Each key that is held exclusively costs a connection
	// beyond Options.Connections, at most 16 more are on their way, and each is kept for up to
	// 20 seconds after its key was released; a pool given to New bounds the keys. Readers and
	// slots (rowlock.Shared, rowlock.Slots) are rows that expire, as of the other strategies: they
	// cost no connection, and after a crash end by their TTL. The smallest TTL is a second. A session that the server or the network ends frees the
	// key too, and its holder learns of that at its next heartbeat only, at most
	// min(TTL/10, 1s) later: guarded transactions are safe meanwhile, other work is not.
	SelectForUpdate
)

var strategyNames = [...]string{VersionColumn: "version", UniqueInsert: "unique", SelectForUpdate: "for-update"}

// String is the strategy's name in flags and tables: version, unique or for-update.
func (s Strategy) String() string {
	if int(s) < len(strategyNames) {
		return strategyNames[s]
	}
	return fmt.Sprintf("strategy %d", uint8(s))
}

// ParseStrategy is the inverse of Strategy.String. Any other name is an error
// that matches rowlock.ErrInvalid.
func ParseStrategy(name string) (Strategy, error) {
	for i, n := range strategyNames {
		if n == name {
			return Strategy(i), nil
		}
	}
	return 0, fmt.Errorf("%w: strategy %q: use version, unique or for-update", driver.ErrInvalid, name)
}

const (
	defaultPrefix      = "rowlock"
	defaultConnections = 8
	defaultWakeupConns = 2

	mostForReleases = 2
	minConnections  = conn.ControlConnections + conn.RenewConnections + 2

	// spareConnections of a caller's pool are left for its own work: the guarded
	// transaction, and one more.
	spareConnections = 2
)

var identifier = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,40}$`)

// fill puts the defaults in and checks the rest.
func (o Options) fill() (Options, error) {
	if int(o.Strategy) >= len(strategyNames) {
		return o, fmt.Errorf("%w: unknown strategy %d: use VersionColumn, UniqueInsert or SelectForUpdate", driver.ErrInvalid, uint8(o.Strategy))
	}
	if o.Prefix == "" {
		o.Prefix = defaultPrefix
	}
	if !identifier.MatchString(o.Prefix) {
		return o, fmt.Errorf("%w: prefix %q: it begins the names of tables, so use a letter or underscore and then at most 40 letters, digits and underscores", driver.ErrInvalid, o.Prefix)
	}
	if o.Connections == 0 {
		o.Connections = defaultConnections
	}
	if o.Connections < minConnections {
		return o, fmt.Errorf("%w: Connections is %d: at least %d are needed", driver.ErrInvalid, o.Connections, minConnections)
	}
	if o.WakeupConns < 0 {
		o.WakeupConns = -1
	}
	return o, nil
}

// wakeupConns is how many connections carry named locks; room is how many the pool has
// for them.
func (o Options) wakeupConns(room int) int {
	if o.WakeupConns == 0 {
		return max(min(defaultWakeupConns, room), 0)
	}
	return max(o.WakeupConns, 0)
}

// releaseConnections is how many connections carry releases and undos.
func (o Options) releaseConnections() int {
	return min(mostForReleases, (o.Connections-conn.ControlConnections-conn.RenewConnections)/2)
}

// acquireConnections is how many are left for acquires.
func (o Options) acquireConnections() int {
	return o.Connections - conn.ControlConnections - conn.RenewConnections - o.releaseConnections()
}
