// Package locktest is the conformance suite of rowlock, which every Store must pass. It drives a Store directly and through
// package rowlock. If the harness has a server, it pauses, kills and restarts that.
//
//	func harness(t testing.TB) locktest.Harness {
//		dsn := testserver.DSN(t, testserver.MySQL)
//		return locktest.Harness{
//			Open:   func(t testing.TB) driver.Store { return openStore(t, dsn) }, // closes it by t.Cleanup
//			Config: dsn,
//			…
//		}
//	}
//
//	func TestConformance(t *testing.T) {
//		t.Run("version", func(t *testing.T) { locktest.Run(t, harness(t)) })
//	}
//
// An example is conformance_test.go of mongo. A store in the memory of one process runs the suite in virtual time, by
// [RunVirtual]: see conformance_test.go of package memory.
//
// # Plugging in a backend
//
// Fill a [Harness]. Open alone is enough for about two thirds of the suite; each further field brings the cases that need
// it. A case whose field is nil does not exist for this backend: it is not skipped, and nothing hides in a skip.
//
// A backend that sets Config also needs a TestMain. The suite runs the test binary again as a child process, and Main runs
// the child's part there instead of the tests:
//
//	func TestMain(m *testing.M) { locktest.Main(m, open) }
//
// The lock space of a Harness belongs to one Run at a time: give each Run its own table or collection, and remove it at the
// end. Inside it each case uses keys of its own, so cases run at the same time, some six of them; the few that need the lock
// space for themselves come last.
//
// # Names
//
// Every case is a subtest whose name begins with the promise it pins, as in P1_LostUpdateCounter: go test -run
// 'TestConformance/.*/P2' runs what pins P2 on every backend. Cases of the seam that belong to no promise begin with Store_,
// those of MinHold, MaxHold and NoRenew with Hold_, those of waiters with Wait_.
//
// # What is asserted about time
//
// Only what load cannot break. A case waits until something has happened, up to a generous deadline, and compares moments
// only in the direction in which a slow machine moves them harmlessly. Where a live lease must survive, which needs a
// machine that runs, the case is repeated with a longer TTL before it fails.
//
// # Faults without a server
//
// [Fault] wraps a Store: its hooks delay, hang or fail a call, or apply it and lose the answer. It is exported for tests of
// programs that use rowlock.
package locktest
