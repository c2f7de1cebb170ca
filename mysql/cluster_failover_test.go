package mysqllock

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/testserver"
)

// follower is a program on an address that follows the primary of a cluster.
type follower struct {
	*clusterLab
	store *Store
	*rowlock.Client
	notes int // written by now
}

func (l *clusterLab) follower(dsn string) *follower {
	l.t.Helper()
	s, err := Open(dsn, Options{})
	must(l.t, err)
	l.t.Cleanup(func() { must(l.t, s.Close()) })
	return &follower{clusterLab: l, store: s, Client: l.client(s)}
}

// notes makes the table that write writes to.
func (l *clusterLab) notes() {
	l.t.Helper()
	db, err := sql.Open("mysql", l.DSN())
	must(l.t, err)
	defer db.Close()
	exec(l.t, db, "CREATE TABLE notes (id BIGINT AUTO_INCREMENT PRIMARY KEY, text VARCHAR(100))")
}

// write writes under a guard until that is done. planned: nothing but the switch stands in its way, so no more than one
// connection is found on the old primary, and what it answers is marked as nothing.
func (f *follower) write(what string, planned bool) {
	f.t.Helper()
	lease, err := f.Acquire(patient(f.t), "written")
	must(f.t, err)
	begin := time.Now()
	var failed []error
	for ctx := patient(f.t); ; {
		try, cancel := context.WithTimeout(ctx, 10*time.Second) // the caller's own bound, as on a server that is frozen
		err := f.store.InTx(try, lease, func(ctx context.Context, tx *sql.Tx) error { return note(ctx, tx, what) })
		cancel()
		if err == nil {
			break
		}
		if failed = append(failed, err); ctx.Err() != nil {
			f.t.Fatalf("InTx after %s: %d tries: %v", what, len(failed), failed)
		}
		if planned && !errors.Is(err, rowlock.ErrConflict) {
			f.t.Errorf("InTx after %s: %v: not marked as one to run again", what, err)
		}
	}
	f.notes++
	if planned && len(failed) > 1 {
		f.t.Errorf("InTx after %s failed %d times before a connection to the new primary was used: %v", what, len(failed), failed)
	}
	f.t.Logf("InTx after %v, tries that failed: %q", time.Since(begin).Round(time.Millisecond), failed)
	must(f.t, lease.Release(patient(f.t)))
}

// busy takes and releases keys until it is ended: statements are under way when a fault comes.
func (f *follower) busy() (end func()) {
	ctx, stop := context.WithCancel(f.t.Context())
	var workers sync.WaitGroup
	var grants atomic.Int64
	for i := range 4 {
		workers.Go(func() {
			for ctx.Err() == nil {
				lease, err := f.Acquire(ctx, fmt.Sprint("busy", i))
				if err != nil {
					continue
				}
				grants.Add(1)
				_ = lease.Release(context.WithoutCancel(ctx))
			}
		})
	}
	eventually(f.t, "the workers are at work", func() bool { return grants.Load() > 20 })
	return func() { stop(); workers.Wait() }
}

// TestP27_ConnectionsLeft: the address leads to the next primary, and leaves the connections to the one before as they are.
// The program comes back by itself all the same, with a TTL that is longer than it waits for anything; nothing that was
// passing is taken for lasting, and what a lease costs is what it was.
func TestP27_ConnectionsLeft(t *testing.T) {
	testserver.Long(t)
	t.Parallel()
	for _, kind := range clusterKinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			l := newClusterLab(t, kind)
			l.notes()
			f := l.follower(l.LeavingDSN())
			last := new(int64)
			after := func(what string, planned bool) {
				t.Helper()
				t.Logf("--- %s; member %d takes writes", what, l.Primary())
				if planned {
					lease, err := f.TryAcquire(patient(t), "tried")
					if err != nil {
						t.Errorf("TryAcquire after %s: %v", what, err)
					} else {
						must(t, lease.Release(patient(t)))
					}
				}
				if _, err := f.Inspect(patient(t), "written"); planned && err != nil {
					t.Errorf("Inspect after %s: %v", what, err)
				}
				l.lockAndCount(f.Client, "counted", last)
				f.write(what, planned)
			}
			after("the beginning", true)
			if kind != testserver.MariaDBGalera3 { // whose nodes all take writes: the program would stay where it is
				l.Switch((l.Primary() + 1) % 3)
				after("a switch", true)
			}

			end := f.busy()
			old := l.Primary()
			l.Kill(old)
			began := l.startsMeanwhile()
			l.Promote()
			end()
			after("a kill", false)
			began()
			l.Rejoin(old)

			end = f.busy()
			old = l.Primary()
			l.Pause(old)
			l.Promote()
			end()
			after("a freeze", false)
			l.Resume(old)
			l.Rejoin(old)
			after("its return", false)

			var n int
			db, err := sql.Open("mysql", l.DSN())
			must(t, err)
			defer db.Close()
			must(t, db.QueryRow("SELECT COUNT(DISTINCT text) FROM notes").Scan(&n))
			if n != f.notes {
				t.Errorf("%d of %d guarded writes that were acknowledged are there", n, f.notes)
			}
			fresh := client{t: t, Store: l.follower(l.LeavingDSN()).store}
			want := fresh.cycle()
			eventually(t, "a quiet cycle costs what it costs a fresh store", func() bool {
				return client{t: t, Store: f.store}.cycle() <= want
			})
			if f.store.db.CannotKill.Load() {
				t.Error("it is taken for lasting that no statement can be ended by KILL")
			}
		})
	}
}

// startsMeanwhile starts a program while there is no primary; what it returns waits until that has a key.
func (l *clusterLab) startsMeanwhile() (wait func()) {
	f := l.follower(l.LeavingDSN())
	ctx := patient(l.t)
	got := make(chan error, 1)
	go func() {
		lease, err := f.Acquire(ctx, "started meanwhile")
		if err == nil {
			err = lease.Release(ctx)
		}
		got <- err
	}()
	return func() {
		l.t.Helper()
		if err := <-got; err != nil {
			l.t.Errorf("a program that was started while there was no primary: %v", err)
		}
	}
}

// TestStartOnAStandby: a program whose address leads to a standby waits until that is the primary.
func TestStartOnAStandby(t *testing.T) {
	testserver.Long(t)
	t.Parallel()
	for _, kind := range []string{testserver.MySQLSemiSync, testserver.MySQLGroup3} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			l := newClusterLab(t, kind)
			to := (l.Primary() + 1) % 3
			f := l.follower(l.MemberDSNs()[to])
			refused(t, f.store.Check(patient(t)), driver.ErrNotSupported, true, "read-only")
			got := make(chan error, 1)
			ctx := patient(t)
			go func() {
				_, err := f.Acquire(ctx, "a")
				got <- err
			}()
			before := f.store.Statements()
			eventually(t, "it has tried", func() bool { return f.store.Statements() > before+10 })
			l.Switch(to)
			if err := <-got; err != nil {
				t.Errorf("P27: after the switch: %v", err)
			}
		})
	}
}

// TestKilledStatementOnGalera: a statement that KILL QUERY ended is answered there as a conflict (1213). A key whose row
// a stranger has locked is told to be pinned, as elsewhere.
func TestKilledStatementOnGalera(t *testing.T) {
	testserver.Long(t)
	t.Parallel()
	cluster := newClusterLab(t, testserver.MariaDBGalera3)
	config, err := mysql.ParseDSN(cluster.DSN())
	must(t, err)
	l := &lab{t: t, kind: cluster.kind, config: config, strategy: VersionColumn}
	l.db = l.open(config)
	c := client{t: t, Store: l.bare()}
	c.granted("b", time.Millisecond)
	eventually(t, "the hold is over", func() bool { return !c.inspect("b").Held })
	before := kills(t, l.db)
	end := lockRow(l, "b")
	eventually(t, "a statement is ended by KILL QUERY", func() bool {
		c.near()
		c.wants("P8: a key whose row a stranger has locked", c.acquire(request("b", time.Minute))[0].Status, driver.Pinned)
		return kills(t, l.db) > before
	})
	end()
	c.granted("b", time.Minute)
}

// TestHAProxy: the way to the primary is a real HAProxy with a health check, which ends connections to a server that is
// no primary any more. Nothing that a lease or a guarded transaction needs is lost in a switch, a kill or a freeze.
func TestHAProxy(t *testing.T) {
	testserver.Long(t)
	t.Parallel()
	for _, kind := range clusterKinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			l := newClusterLab(t, kind)
			l.notes()
			dsn := l.HAProxy()
			f := l.follower(dsn)
			held, err := f.Acquire(patient(t), "held throughout")
			must(t, err)
			last := new(int64)
			after := func(what string) {
				t.Helper()
				t.Logf("--- %s; member %d takes writes", what, l.Primary())
				l.lockAndCount(f.Client, "counted", last)
				f.write(what, false)
				eventually(t, "a renewal is answered: HAProxy may just cut its connection", func() bool { return held.Renew(patient(t)) == nil || held.Err() != nil })
				if err := held.Err(); err != nil {
					t.Errorf("P26: the lease that is held throughout: %v", err)
				}
			}
			after("the beginning")
			if kind != testserver.MariaDBGalera3 { // HAProxy decides there
				l.Switch((l.Primary() + 1) % 3)
				after("a switch")
			}
			leadsTo := func() int {
				if kind == testserver.MariaDBGalera3 {
					return 0 // the first, whenever it can serve
				}
				return l.Primary()
			}
			old := leadsTo()
			l.Kill(old)
			l.Promote()
			after("a kill")
			l.Rejoin(old)
			after("its return")
			old = leadsTo()
			l.Pause(old)
			l.Promote()
			after("a freeze")
			l.Resume(old)
			l.Rejoin(old)
			after("its return after the freeze")
			fresh := l.follower(dsn)
			l.lockAndCount(fresh.Client, "counted", last)
		})
	}
}
