// Package side has everything the benchmark compares: rowlock with each of its
// strategies, floors written by hand, other ways to lock in the same database, and
// the lock libraries of other servers. To the benchmark all are the same: something
// that locks a key.
package side

import (
	"context"
	"fmt"
	"time"
)

// Locker is one alternative. Lock waits until it has the key. It is safe for
// concurrent use.
type Locker interface {
	Lock(ctx context.Context, key string) (Hold, error)
	Close() error
}

// Hold is a key that was locked.
type Hold interface {
	Unlock(ctx context.Context) error
}

// Tokened is a Hold with a fencing token.
type Tokened interface{ Token() int64 }

// Counter is a Locker that counts what it sends to its server.
type Counter interface{ Statements() uint64 }

// Statements is what l has sent; ok is false where it does not count.
func Statements(l Locker) (n uint64, ok bool) {
	c, ok := l.(Counter)
	if !ok {
		return 0, false
	}
	return c.Statements(), true
}

// Spec names a Locker, so that another process can open the same one.
type Spec struct {
	Kind    string
	Address string
	Space   string            // the database of this run, where the address does not name it
	Prefix  string            // of the tables, or the collection's name
	TTL     time.Duration     // 0: the library's default
	Callers int               // goroutines that will use it at once
	NoHand  bool              // rowlock: no handing off inside the process
	Fair    bool              // rowlock: the programs wait in order
	Via     map[string]string // MongoDB: where to dial instead of a member's address
	Meter   *Meter            `json:"-"` // counts the connections of a Rowlock
}

// The kinds, by the names that reports show.
const (
	Version   = "version"
	Unique    = "unique"
	ForUpdate = "for-update"
	Mongo     = "mongo"
	Guarded   = "mongo guarded"

	// Without named locks: waiters probe.
	VersionProbes = Version + probes
	UniqueProbes  = Unique + probes

	// Their callers wait in order: rowlock.Fair.
	FairVersion = Version + fair
	FairMongo   = Mongo + fair

	Floor         = "floor"               // two durable commits by hand
	FloorInsert   = "floor insert+delete" // the same as INSERT and DELETE
	SingleVersion = "version, one by one" // one statement for each lock, on the library's table
	SingleUnique  = "unique, one by one"  //
	SingleMongo   = "mongo, one by one"   //
	Poller        = "poller 5 ms"         // what people write by hand
	GetLock       = "GET_LOCK"            // the server's own lock: no lease, no token, not durable
	SelectOne     = "SELECT 1"            // a trip to the server
	Ping          = "ping"                //
	Redislock     = "bsm/redislock"       //
	Redsync       = "go-redsync"          //
	Etcd          = "etcd concurrency"    //
	ZooKeeper     = "go-zookeeper"        //
)

const (
	probes = ", probes only"
	fair   = ", Fair"
)

var kinds = map[string]func(context.Context, Spec) (Locker, error){
	Version: openRowlockSide, Unique: openRowlockSide, ForUpdate: openRowlockSide,
	VersionProbes: openRowlockSide, UniqueProbes: openRowlockSide, FairVersion: openRowlockSide, FairMongo: openRowlockSide, Mongo: openRowlockSide, Guarded: openRowlockSide,
	Floor: openFloor, FloorInsert: openFloorInsert, Poller: openPoller, GetLock: openGetLock,
	SingleVersion: openSingleSQL, SingleUnique: openSingleSQL, SingleMongo: openSingleMongo,
	SelectOne: openSelectOne, Ping: openPing,
	Redislock: openRedislock, Redsync: openRedsync, Etcd: openEtcd, ZooKeeper: openZooKeeper,
}

// registered are locks of the caller's own, in the order in which they came.
var registered []string

// Register adds a lock of the caller's own.
func Register(name string, open func(ctx context.Context, callers int) (Locker, error)) {
	registered = append(registered, name)
	kinds[name] = func(ctx context.Context, s Spec) (Locker, error) { return open(ctx, s.Callers) }
}

// Registered are the names of the caller's own locks.
func Registered() []string { return registered }

// Open opens the Locker that s names.
func Open(ctx context.Context, s Spec) (Locker, error) {
	open := kinds[s.Kind]
	if open == nil {
		return nil, fmt.Errorf("there is no side %q", s.Kind)
	}
	l, err := open(ctx, s)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", s.Kind, err)
	}
	return l, nil
}

// IsRowlock tells the library's own strategies from the rest.
func IsRowlock(kind string) bool {
	switch kind {
	case Version, Unique, VersionProbes, UniqueProbes, FairVersion, ForUpdate, Mongo, FairMongo, Guarded:
		return true
	}
	return false
}

// funcs makes a Locker of two functions: a floor excludes nobody and keeps nothing.
type funcs struct {
	lock, unlock func(ctx context.Context, key string) error
	close        func() error
}

func (f *funcs) Lock(ctx context.Context, key string) (Hold, error) {
	if err := f.lock(ctx, key); err != nil {
		return nil, err
	}
	return funcHold{f, key}, nil
}

func (f *funcs) Close() error { return f.close() }

type funcHold struct {
	f   *funcs
	key string
}

func (h funcHold) Unlock(ctx context.Context) error { return h.f.unlock(ctx, h.key) }

func nothing(context.Context, string) error { return nil }
