package mysqllock

import (
	"fmt"
	"regexp"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/mysql/internal/conn"
	"github.com/rowlock/rowlock/mysql/internal/schema"
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

	// WakeupConns is how many more connections may be used to wake a program that waits for a
	// key of VersionColumn or UniqueInsert: 2 by default, none if it is negative. Each is for one
	// key. While this program is the first in the key's line it waits there for a lock of the
	// server by name (GET_LOCK), and the release of the key wakes it within a millisecond or
	// two. It looks at further keys, and finds them free some milliseconds later. The order of
	// programs is the same with and without: the key's row decides it. A pool given to New
	// without room for them gives fewer by default. SelectForUpdate has none: its programs wait
	// in the server.
	WakeupConns int

	// FewConnections is for a program that takes a lease, or a few at once, and ends with them, as rowlock run does. Of many
	// such programs each has the fewest connections with which the promises hold: one while it waits, and two while it
	// holds. Acquires, Inspect and what ends statements share the first, renewals and releases the second; for what
	// takes too long in one the other is used. SelectForUpdate has one for all of these, and one for each key that is
	// held exclusively or waited for. A running InTx or Once takes the first one over. Nobody is woken: who waits looks. Connections and
	// WakeupConns cannot be set beside it.
	FewConnections bool
}

// Strategy is how MySQL keeps a lock.
type Strategy uint8

const (
	// VersionColumn keeps one row a key. The row stays after the release, until the reaper finds that the key has been
	// free for a day. Its token is the version that each grant raises. Acquire and release are one statement each.
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
	defaultPrefix      = schema.DefaultPrefix
	defaultConnections = 8
	defaultWakeupConns = 2

	mostForReleases = 2
	minConnections  = conn.ControlConnections + conn.RenewConnections + 2
	fewConnections  = 2 // acquires and what ends statements; renewals and releases

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
	if o.FewConnections {
		return o.few()
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

// few fills in what follows from FewConnections.
func (o Options) few() (Options, error) {
	if o.Connections != 0 || o.WakeupConns > 0 {
		return o, fmt.Errorf("%w: FewConnections beside Connections %d and WakeupConns %d: it says how many there are, so leave those out", driver.ErrInvalid, o.Connections, o.WakeupConns)
	}
	o.Connections, o.WakeupConns = fewConnections, -1
	if o.Strategy == SelectForUpdate {
		o.Connections = 1 // what holds is a session
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
	if o.FewConnections {
		return o.Connections - 1
	}
	return min(mostForReleases, (o.Connections-conn.ControlConnections-conn.RenewConnections)/2)
}

// acquireConnections is how many are left for acquires.
func (o Options) acquireConnections() int {
	if o.FewConnections {
		return 1
	}
	return o.Connections - conn.ControlConnections - conn.RenewConnections - o.releaseConnections()
}
