package mysqllock

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/internal/testserver"
)

// group gets keys as a group of the program.
func (p program) group(t testing.TB, keys []string, opts ...rowlock.Option) *rowlock.Group {
	t.Helper()
	g, err := p.AcquireAll(patient(t), rowlock.Keys(keys...), opts...)
	must(t, err)
	return g
}

// TestP4_GuardOverAGroup: one statement guards every lease of a group: after their end none
// of the keys is granted while the transaction is open.
func TestP4_GuardOverAGroup(t *testing.T) {
	everywhere(t, func(t *testing.T, l *lab) {
		a, b := l.program(t, rowlock.Options{}), l.program(t, rowlock.Options{})
		handles := l.handles(t)
		for _, name := range testserver.Some(t, slices.Sorted(maps.Keys(handles))...) {
			begin, ctx := handles[name], patient(t)
			var keys []string
			for i := range 3 {
				keys = append(keys, fmt.Sprintf("%s %d", name, 2-i))
			}
			var g *rowlock.Group
			var commit func() error
			for ttl := l.shortest(); ; ttl *= 2 { // who has less time than a busy machine needs gets more
				g = a.group(t, keys, rowlock.NoRenew(), rowlock.TTL(ttl))
				var tx Tx
				tx, commit = begin()
				leases := g.Leases()
				err := a.Guard(ctx, tx, leases[0], leases[1:]...)
				if err == nil {
					break
				}
				if ttl > time.Minute || !errors.Is(err, rowlock.ErrLost) {
					t.Fatalf("%s: guard of a group: %v", name, err)
				}
				_ = commit()
			}
			for _, lease := range g.Leases() {
				<-lease.Done()
			}
			for _, key := range keys {
				l.free(t, b, key)
				var held *rowlock.HeldError
				if next, err := b.TryAcquire(ctx, key); !errors.As(err, &held) || !held.Pinned {
					t.Errorf("P4, %s: %q was granted while a transaction that guards its group was open, or not pinned: %v, %v", name, key, next, err)
				}
			}
			must(t, commit())
			must(t, b.group(t, keys).Release(ctx))
		}
	})
}

// TestGuardOverAGroupLocksItsEntries: one entry of the index for each lease, and no gap; and
// it is one statement in the transaction.
func TestGuardOverAGroupLocksItsEntries(t *testing.T) {
	for _, strategy := range []Strategy{VersionColumn, UniqueInsert, SelectForUpdate} {
		t.Run(strategy.String(), func(t *testing.T) {
			l := newLab(t, testserver.MySQL, strategy)
			ctx := patient(t)
			a := l.program(t, rowlock.Options{})
			for _, neighbour := range []string{"a", "g 1x", "z"} {
				a.lock(t, neighbour)
			}
			leases := a.group(t, []string{"g 2", "g 1", "g 3"}).Leases()
			var tx *sql.Tx
			for try := 1; ; try++ {
				tx = l.beginAt(t, sql.LevelRepeatableRead)
				before := a.Store.Statements()
				must(t, a.Guard(ctx, tx, leases[0], leases[1], leases[2], leases[1]))
				n := a.Store.Statements() - before
				if n == 2 {
					break
				}
				if try == 5 { // on a busy machine others may come between
					t.Fatalf("a guard of three leases took %d statements, want a plain read and the guard", n)
				}
				must(t, tx.Rollback())
			}
			var thread string
			must(t, tx.QueryRow("SELECT THREAD_ID FROM performance_schema.threads WHERE PROCESSLIST_ID=CONNECTION_ID()").Scan(&thread))
			rows, err := tx.Query("SELECT index_name, lock_mode FROM performance_schema.data_locks WHERE THREAD_ID=? AND LOCK_TYPE='RECORD'", thread)
			must(t, err)
			defer rows.Close()
			n := 0
			for rows.Next() {
				var index, mode string
				must(t, rows.Scan(&index, &mode))
				if n++; index != "guard" || mode != "S,REC_NOT_GAP" {
					t.Errorf("a lock %s on index %s", mode, index)
				}
			}
			must(t, rows.Err())
			if n != 3 {
				t.Errorf("%d entries are locked, want 3", n)
			}
			must(t, a.lock(t, "g 11").Release(ctx)) // a new key between them
		})
	}
}

// TestGuardOverAGroupOfMany: as many leases as a batch of AcquireAll has.
func TestGuardOverAGroupOfMany(t *testing.T) {
	for _, kind := range testserver.Some(t, testserver.MySQL, testserver.MariaDB) {
		t.Run(kind, func(t *testing.T) {
			l := newLab(t, kind, VersionColumn)
			ctx := patient(t)
			a := l.program(t, rowlock.Options{})
			var keys []string
			for i := range 200 {
				keys = append(keys, fmt.Sprintf("%0255d", i))
			}
			g := a.group(t, keys)
			tx := l.beginAt(t, sql.LevelRepeatableRead)
			leases := g.Leases()
			must(t, a.Guard(ctx, tx, leases[0], leases[1:]...))
			must(t, tx.Commit())
			must(t, g.Release(ctx))
		})
	}
}

// TestP4_GuardOverAGroupWithALostLease is refused as a whole, names the lost one, and locks
// nothing.
func TestP4_GuardOverAGroupWithALostLease(t *testing.T) {
	everywhere(t, func(t *testing.T, l *lab) {
		ctx := patient(t)
		a, b := l.program(t, rowlock.Options{}), l.program(t, rowlock.Options{})
		for i, key := range []string{"a", "b", "c"} {
			g := a.group(t, []string{"a", "b", "c"})
			if _, err := b.Store.ForceRelease(ctx, key); err != nil {
				t.Fatal(err)
			}
			next := b.lock(t, key)
			tx := l.beginAt(t, sql.LevelRepeatableRead)
			leases := g.Leases()
			var lost *rowlock.LostError
			if err := a.Guard(ctx, tx, leases[0], leases[1:]...); !errors.As(err, &lost) || lost.Key != key || lost.Token != leases[i].Token() {
				t.Errorf("P4: guard of a group whose lease of %q was taken: %v", key, err)
			}
			if err := a.MarkRun(ctx, tx, leases[0], "r", leases[1:]...); !errors.Is(err, rowlock.ErrLost) {
				t.Errorf("P4: MarkRun with a group whose lease of %q was taken: %v", key, err)
			}
			run := func(context.Context, *sql.Tx) error { t.Error("called"); return nil }
			if err := a.InTx(ctx, leases[0], run, leases[1:]...); !errors.Is(err, rowlock.ErrLost) {
				t.Errorf("P4: InTx with a group whose lease of %q was taken: %v", key, err)
			}
			if err := a.Once(ctx, leases[0], "r", run, leases[1:]...); !errors.Is(err, rowlock.ErrLost) {
				t.Errorf("P4: Once with a group whose lease of %q was taken: %v", key, err)
			}
			_ = g.Release(ctx)
			must(t, next.Release(ctx))
			must(t, b.group(t, []string{"a", "b", "c"}).Release(ctx)) // tx is open
		}
	})
}

// TestP13_OnceOverAGroup: the run is one of the first lease's key, and is marked once.
func TestP13_OnceOverAGroup(t *testing.T) {
	everywhere(t, func(t *testing.T, l *lab) {
		ctx := patient(t)
		a := l.program(t, rowlock.Options{})
		l.notes(t)
		leases := a.group(t, []string{"b", "a"}).Leases()
		once := func() error {
			return a.Once(ctx, leases[0], "r", func(ctx context.Context, tx *sql.Tx) error {
				return note(ctx, tx, "once")
			}, leases[1])
		}
		must(t, once())
		if err := once(); !errors.Is(err, rowlock.ErrAlreadyRan) {
			t.Errorf("P13: Once again: %v, want ErrAlreadyRan", err)
		}
		if n := l.noted(t, "once"); n != 1 {
			t.Errorf("P13: %d effects", n)
		}
		tx := l.beginAt(t, sql.LevelDefault)
		if err := a.MarkRun(ctx, tx, leases[0], "r", leases[1]); !errors.Is(err, rowlock.ErrAlreadyRan) {
			t.Errorf("P13: MarkRun: %v, want ErrAlreadyRan", err)
		}
		_ = tx.Rollback()
		tx = l.beginAt(t, sql.LevelDefault)
		must(t, a.MarkRun(ctx, tx, leases[1], "r", leases[0])) // of the other key it is another run
		must(t, tx.Commit())
	})
}

// TestGuardOverAGroupRefuses what cannot be guarded together.
func TestGuardOverAGroupRefuses(t *testing.T) {
	l := newLab(t, testserver.MySQL, VersionColumn)
	ctx := patient(t)
	a, b := l.program(t, rowlock.Options{}), l.program(t, rowlock.Options{})
	lease, foreign := a.lock(t, "a"), b.lock(t, "b")
	tx := l.beginAt(t, sql.LevelDefault)
	for name, c := range map[string]struct {
		more []*rowlock.Lease
		says string
	}{
		"a nil lease":            {[]*rowlock.Lease{lease, nil}, "lease 3 of 3 is nil"},
		"another Store's lease":  {[]*rowlock.Lease{foreign}, "another Store"},
		"more than a batch has":  {make([]*rowlock.Lease, 5000), "is nil"},
		"too many of the leases": {manyTimes(lease, 5000), "5001 leases"},
	} {
		if err := a.Guard(ctx, tx, lease, c.more...); !errors.Is(err, rowlock.ErrInvalid) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func manyTimes(l *rowlock.Lease, n int) (ls []*rowlock.Lease) {
	for range n {
		ls = append(ls, l)
	}
	return ls
}

// TestGroupLargerThanThePool: SelectForUpdate needs a connection for each key, so a group that
// has no room in the pool is refused at once, and one that has does not wait for ever.
func TestGroupLargerThanThePool(t *testing.T) {
	for _, kind := range testserver.Some(t, testserver.MySQL, testserver.MariaDB) {
		t.Run(kind, func(t *testing.T) {
			l := newLab(t, kind, SelectForUpdate)
			l.store()
			ctx := patient(t)
			const room = 4
			db := l.open(l.config)
			db.SetMaxOpenConns(minConnections + spareConnections + room)
			s, err := New(db, Options{Strategy: SelectForUpdate, Connections: minConnections})
			must(t, err)
			t.Cleanup(func() { _ = s.Close() })
			a := l.programOn(t, s, rowlock.Options{})
			keys := []string{"a", "b", "c", "d", "e", "f"}
			if _, err := a.AcquireAll(ctx, rowlock.Keys(keys[:room+1]...)); !errors.Is(err, rowlock.ErrInvalid) || !strings.Contains(err.Error(), "5 exclusive keys: the store can hold 4") {
				t.Errorf("a group of 5 in a pool with room for 4: %v", err)
			}
			must(t, a.group(t, keys[:room]).Release(ctx))
			done := make(chan error, 4)
			for i := range 4 { // each needs three of four
				go func() {
					for range 3 {
						g, err := a.AcquireAll(ctx, rowlock.Keys(keys[i%3:i%3+3]...))
						if err != nil {
							done <- err
							return
						}
						_ = g.Release(ctx)
					}
					done <- nil
				}()
			}
			for range 4 {
				if err := <-done; err != nil {
					t.Errorf("P22: groups that share a small pool: %v", err)
				}
			}
		})
	}
}

// TestAcquireAllStatements: N11: keys that nobody else wants cost as many statements as one.
func TestAcquireAllStatements(t *testing.T) {
	for _, kind := range testserver.Some(t, testserver.MySQL, testserver.MariaDB) {
		for strategy, most := range map[Strategy]uint64{VersionColumn: 3, UniqueInsert: 4} {
			t.Run(kind+"/"+strategy.String(), func(t *testing.T) {
				l := newLab(t, kind, strategy)
				ctx := patient(t)
				a := l.program(t, rowlock.Options{})
				keys := []string{"c", "a", "e", "b", "d"}
				must(t, a.group(t, keys).Release(ctx)) // the first use has statements of its own
				var n uint64
				for range 20 { // on a slow server a statement is looked after, and maybe ended
					before := a.Store.Statements()
					must(t, a.group(t, keys).Release(ctx))
					if n = a.Store.Statements() - before; n <= most {
						return
					}
				}
				t.Errorf("a group of 5 keys cost %d statements, want %d", n, most)
			})
		}
	}
}
