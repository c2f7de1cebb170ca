package target

import (
	"github.com/rowlock/rowlock/dev/bench/internal/lab"
	"github.com/rowlock/rowlock/dev/bench/internal/side"
)

var (
	sqls    = []string{lab.MySQL, lab.MariaDB}
	mysqls  = []string{lab.MySQL}
	marias  = []string{lab.MariaDB}
	node    = []string{lab.Mongo}
	nodes   = []string{lab.Mongo3}
	version = []string{side.Version}
	unique  = []string{side.Unique}
	session = []string{side.ForUpdate}
	leases  = []string{side.Version, side.Unique}
	mongo   = []string{side.Mongo}
	guarded = []string{side.Guarded}
	woken   = []string{side.Version, side.Unique, side.ForUpdate}
	probing = []string{side.VersionProbes, side.UniqueProbes}
	tabled  = []string{side.Version, side.Unique, side.Mongo}
	all     = []string{side.Version, side.Unique, side.ForUpdate, side.Mongo}

	contended = append(probing, all...)
)

// Table is every number with the bound at which -check fails.
var Table = []Target{
	{"N1", sqls, version, "", "× floor", false, 0.95, slow, 0.5, "two commits by hand; the same two, and bookkeeping"},
	{"N1", sqls, unique, "", "× floor", false, 0.9, slow, 0.4, "one trip more than two commits"},
	{"N1", sqls, session, "", "× floor", false, 1.4, slow, 0.5, "one commit instead of two, but four trips"},
	{"N1", mysqls, version, "", "× floor", false, 0.8, fast, 0.5, "bookkeeping shows where the disk is fast"},
	{"N1", mysqls, unique, "", "× floor", false, 0.75, fast, 0.4, "one trip more than two commits"},
	{"N1", mysqls, session, "", "× floor", false, 0.9, fast, 0.5, "four trips; commits cost little here"},
	{"N1", marias, version, "", "× floor", false, 0.75, fast, 0.5, "bookkeeping shows where the disk is fast"},
	{"N1", marias, unique, "", "× floor", false, 0.65, fast, 0.4, "one trip more than two commits"},
	{"N1", marias, session, "", "× floor", false, 0.8, fast, 0.5, "four trips; commits cost little here"},
	{"N1", nodes, mongo, "", "× floor", false, 0.88, anyDisk, 0.5, "two $set at majority; a retryable findAndModify costs more"},
	{"N1", nodes, guarded, "", "× floor", false, 0.6, anyDisk, 0.35, "three writes instead of two"},
	{"N1", node, mongo, "", "× floor", false, 0.75, anyDisk, 0.4, "one node has a long tail"},
	{"N1", node, guarded, "", "× floor", false, 0.5, anyDisk, 0.28, "three writes instead of two, and the long tail"},

	{"N1", sqls, version, "", "statements/cycle", true, 2.1, anyDisk, 3.5, "the acquire and the release"},
	{"N1", sqls, unique, "", "statements/cycle", true, 3.1, anyDisk, 4.5, "a row that is new each time is written and read"},
	{"N1", sqls, session, "", "statements/cycle", true, 4.1, anyDisk, 5.5, "begin, look, write, end"},
	{"N1", nil, mongo, "", "statements/cycle", true, 2.1, anyDisk, 3.5, "the acquire and the release"},

	{"N2", sqls, leases, "128 workers", "× one by one", false, 5, anyDisk, 2, "coalescing against the same statements one by one"},
	{"N2", sqls, leases, "128 workers", "× floor", false, 3.5, anyDisk, 1, "coalescing against a table with a primary key only"},
	{"N2", sqls, leases, "128 workers", "p50 ÷ floor's", true, 0.3, anyDisk, 0.8, "a batch takes less time than the queue for single commits"},
	{"N2", sqls, leases, "32 workers", "× floor", false, 2.2, anyDisk, 0.9, "coalescing among fewer"},
	{"N2", sqls, leases, "8 workers", "× floor", false, 1.1, anyDisk, 0.6, "few workers must not pay for many"},
	{"N2", nodes, mongo, "128 workers", "× floor", false, 3, anyDisk, 1.5, "limit: the server's CPU for each document"},
	{"N2", node, mongo, "128 workers", "× floor", false, 5, anyDisk, 1.5, "limit: the server's CPU for each document"},
	{"N2", nil, mongo, "8 workers", "× floor", false, 1, anyDisk, 0.3, "few workers must not pay for many"},

	{"N3", nil, all, "hold 0", "× floor", false, 200, anyDisk, 60, "mostly memory: handing off inside the process"},
	{"N3", nil, all, "hold 0", "tokens out of order", true, 0, anyDisk, 0.5, "a promise, not a speed"},
	{"N3", nil, all, "hold 20ms", "× sync.Mutex", false, 0.95, anyDisk, 0.6, "no pauses for programs that do not exist"},

	{"N4", nil, woken, "4 × 8, hold 20ms", "× GET_LOCK", false, 0.95, anyDisk, 0.5, "the named lock wakes the next process"},
	{"N4", nil, mongo, "4 × 8, hold 20ms", "× ideal", false, 0.9, anyDisk, 0.4, "one hold and two commits after the other"},
	{"N4", nil, all, "4 × 8, hold 20ms", "p50 ÷ floor", true, 1.5, anyDisk, 12, "woken by the server: release and grant are two commits"},
	{"N4", nil, all, "4 × 8, hold 20ms", "statements/hold", true, 2.5, anyDisk, 10, "of all processes: statements grow with processes, not with waiters"},
	{"N4", nil, contended, "4 × 8, hold 20ms", "share max÷min", true, 1.5, anyDisk, 0, "of the process with the most holds to that with the fewest; a short run has too few to fail by"},
	{"N4", nil, contended, "4 × 8, hold 0", "share max÷min", true, 1.5, anyDisk, 0, "nobody starves where the key comes free at once; too noisy in a short run to fail by"},
	{"N4", nil, woken, "4 × 8, hold 20ms", "longest wait ÷ GET_LOCK's", true, 1.5, anyDisk, 0, "nobody starves; too noisy in a short run to fail by"},
	{"N4", nil, all, "4 × 8, hold 0", "longest wait ms", true, 200, anyDisk, 0, "nobody starves; a time, so it never fails"},

	{"N4b", nil, woken, "one key", "without a turn", true, 0, anyDisk, 0, "nobody starves; a short window on a busy machine has too few turns to fail by"},
	{"N4b", nil, woken, "one key", "× GET_LOCK", false, 0.93, anyDisk, 0.3, "a process keeps its place in the queue of the named lock"},
	{"N4b", nil, woken, "one key", "wait p99 ÷ GET_LOCK's", true, 1.2, anyDisk, 0, "the same; too noisy in a short run to fail by"},
	{"N4b", nil, woken, "one key", "statements/hold", true, 2.5, anyDisk, 0, "the same"},
	{"N4b", nil, mongo, "one key", "without a turn", true, 0, anyDisk, 0, "hints make turns"},
	{"N4b", nil, mongo, "one key", "wait p99 ms", true, 2500, anyDisk, 0, "a time, so it never fails"},
	{"N4b", nil, mongo, "one key", "statements/hold", true, 5, anyDisk, 0, "hints make turns"},
	{"N4b", nil, all, "64 keys", "× poller 5 ms", false, 0.8, anyDisk, 0, "the same statements in a plain loop"},
	{"N4b", nil, all, "64 keys", "wait p99 ms", true, 1500, anyDisk, 0, "a time, so it never fails"},
	{"N4b", nil, all, "64 keys", "share max÷min", true, 3, anyDisk, 0, "nobody starves"},

	{"N5", nil, tabled, "", "statements per TTL/3", true, 20, anyDisk, 60, "batches of 500, not one by one; a busy MongoDB is sent smaller ones"},
	{"N5", nil, tabled, "", "connections used", true, 2, anyDisk, 16, "renewals use the connections for writes only"},
	{"N5", nil, tabled, "", "lost", true, 0, anyDisk, 0.5, "a promise, not a speed"},

	{"N6", nil, all, "", "× empty", false, 0.9, anyDisk, 0.5, "keys are looked up by the primary key"},

	{"N7", sqls, session, "", "until the next has it ms", true, 50, anyDisk, 0, "the server ends the session; a time, so it never fails"},
	{"N7", nil, tabled, "", "÷ TTL", true, 1.1, anyDisk, 2, "the key is free when its TTL has passed, and a probe looks then"},
	{"N7", sqls, session, "", "÷ TTL", true, 0.1, anyDisk, 0.9, "SelectForUpdate does not wait for the TTL"},

	{"N8", nil, tabled, "", "statements/s", true, 20, anyDisk, 60, "one look at all keys, at a bounded pace"},
	{"N8", nil, session, "1 waiters, 1 keys", "statements/s", true, 1, anyDisk, 6, "one a second for each waited key"},
	{"N8", nil, session, "100 waiters, 100 keys", "statements/s", true, 100, anyDisk, 400, "one a second for each waited key"},
	{"N8", nil, session, "1000 waiters, 1 keys", "statements/s", true, 1, anyDisk, 6, "one a second for each waited key"},

	{"N9", nil, []string{side.Version, side.Mongo}, "RTT 50ms", "cycle ÷ RTT", true, 2.5, anyDisk, 0, "two statements"},
	{"N9", nil, []string{side.Version, side.Mongo}, "RTT 300ms", "cycle ÷ RTT", true, 2.5, anyDisk, 0, "two statements"},
	{"N9", nil, unique, "RTT 50ms", "cycle ÷ RTT", true, 3.5, anyDisk, 0, "three statements"},
	{"N9", nil, unique, "RTT 300ms", "cycle ÷ RTT", true, 3.5, anyDisk, 0, "three statements"},
	{"N9", nil, session, "RTT 50ms", "cycle ÷ RTT", true, 4.5, anyDisk, 0, "four statements"},
	{"N9", nil, session, "RTT 300ms", "cycle ÷ RTT", true, 4.5, anyDisk, 0, "four statements"},
	{"N9", nil, all, "RTT 50ms", "first use ÷ RTT", true, 12, anyDisk, 0, "connections, their settings, the check of server and tables, and the acquire"},
	{"N9", nil, all, "RTT 300ms", "first use ÷ RTT", true, 12, anyDisk, 0, "connections, their settings, the check of server and tables, and the acquire"},

	{"N11", mysqls, woken, "shared, 32 clients", "× one exclusive client", false, 1.3, anyDisk, 0.4, "a row for each reader; the key's row is only read"},
	{"N11", marias, woken, "shared, 32 clients", "× one exclusive client", false, 2, anyDisk, 0.5, "a row for each reader; the key's row is only read"},
	{"N11", nil, mongo, "shared, 32 clients", "× one exclusive client", false, 4, anyDisk, 1, "no lock of the document outlives its write"},
	{"N11", nil, tabled, "a lone cycle, shared", "statements/cycle", true, 2.1, anyDisk, 3.5, "as an exclusive one"},
	{"N11", nil, session, "a lone cycle, shared", "statements/cycle", true, 3.1, anyDisk, 4.5, "begin, look, end"},
	{"N11", nil, tabled, "a lone cycle, slot", "statements/cycle", true, 2.1, anyDisk, 3.5, "as an exclusive one: the slot that it had last is tried first"},
	{"N11", nil, session, "a lone cycle, slot", "statements/cycle", true, 3.1, anyDisk, 4.5, "begin and choose, look, end"},
	{"N11", nil, tabled, "slots, 32 clients", "statements/grant", true, 2.1, anyDisk, 8, "nobody meets another: each has the slot that it had"},
	{"N11", nil, all, "32 readers of one client", "holds per Handoff", true, 1.1, anyDisk, 4, "local readers join a hold for 50 ms"},
	{"N11", nil, version, "AcquireAll", "statements/cycle", true, 3.1, anyDisk, 4.5, "two for any number of keys, and a look at the tokens"},
	{"N11", nil, unique, "AcquireAll", "statements/cycle", true, 4.1, anyDisk, 5.5, "one more, as for one key"},
	{"N11", nil, session, "AcquireAll", "statements/cycle", true, 40.1, anyDisk, 50, "a session for each of the ten keys"},
	{"N11", nil, all, "fair", "p50 ÷ unfair's", true, 1.5, anyDisk, 0, "a ticket costs commits while one waits or holds, not between; too noisy in a short run to fail by"},

	{"P15", nil, all, "", "p99 more, less 4 trips, ms", true, 100, anyDisk, 0, "a blocked key delays the others by no more than the bound on a batch; a time, so it never fails"},

	{"engine", nil, []string{"rowlock"}, "", "ns/cycle", true, 4000, anyDisk, 0, "a time, so it never fails"},
	{"engine", nil, []string{"rowlock"}, "", "allocs/cycle", true, 6, anyDisk, 8, "allocations do not depend on the machine"},
}
