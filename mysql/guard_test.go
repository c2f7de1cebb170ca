package mysqllock

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/testserver"
)

func reasonOf(err error) rowlock.Reason {
	var lost *rowlock.LostError
	if errors.As(err, &lost) {
		return lost.Reason
	}
	return ""
}

// TestP4_TakeoverWaitsForTheGuard: the lease ends, the guarded transaction is still
// open, and nobody else is granted the key until it has been committed. In all kinds
// of transaction.
func TestP4_TakeoverWaitsForTheGuard(t *testing.T) {
	everywhere(t, func(t *testing.T, l *lab) {
		a, b := l.program(t, rowlock.Options{}), l.program(t, rowlock.Options{})
		// guarded guards a lease twice before it ends. Who has less time than a busy
		// machine needs for that gets more.
		guarded := func(ctx context.Context, key string, begin func() (Tx, func() error)) (lease *rowlock.Lease, commit func() error) {
			for ttl := l.shortest(); ; ttl *= 2 {
				lease := a.lock(t, key, rowlock.NoRenew(), rowlock.TTL(ttl))
				tx, commit := begin()
				err := a.Guard(ctx, tx, lease)
				if err == nil {
					err = a.Guard(ctx, tx, lease) // again is fine
				}
				if err == nil {
					return lease, commit
				}
				if ttl > time.Minute || !errors.Is(err, rowlock.ErrLost) || reasonOf(lease.Err()) != rowlock.ReasonExpired {
					t.Fatalf("guard of %q: %v", key, err)
				}
				_ = commit()
			}
		}
		for name, begin := range l.handles(t) {
			ctx := patient(t)
			key := "key of " + name
			lease, commit := guarded(ctx, key, begin)
			<-lease.Done()
			l.free(t, b, key)
			var held *rowlock.HeldError
			if next, err := b.TryAcquire(ctx, key); !errors.As(err, &held) || !held.Pinned {
				t.Errorf("P4, %s: the key was granted while a guarded transaction was open, or not pinned: %v, %v", name, next, err)
				_ = next.Release(ctx) // who waits below need not wait for its end
			}
			got := make(chan time.Time)
			go func() {
				next, err := b.Client.Acquire(ctx, key)
				if err != nil {
					t.Errorf("%s: %v", name, err)
				} else {
					must(t, next.Release(ctx))
				}
				got <- time.Now()
			}()
			time.Sleep(50 * time.Millisecond)
			committing := time.Now()
			must(t, commit())
			if at := <-got; at.Before(committing) {
				t.Errorf("P4, %s: granted %v before the commit", name, committing.Sub(at))
			}
		}
	})
}

// TestP4_GuardOfALostLease is refused, with the reason, before anything is sent in
// the transaction, which goes on to work.
func TestP4_GuardOfALostLease(t *testing.T) {
	everywhere(t, func(t *testing.T, l *lab) {
		ctx := patient(t)
		a, b := l.program(t, rowlock.Options{}), l.program(t, rowlock.Options{})
		for _, c := range []struct {
			name   string
			want   error
			reason rowlock.Reason
			happen func(*rowlock.Lease)
		}{
			{"forced", rowlock.ErrLost, rowlock.ReasonForced, func(lease *rowlock.Lease) {
				_, err := b.Store.ForceRelease(ctx, lease.Key())
				must(t, err)
			}},
			{"taken", rowlock.ErrLost, rowlock.ReasonTaken, func(lease *rowlock.Lease) {
				_, err := b.Store.ForceRelease(ctx, lease.Key())
				must(t, err)
				b.lock(t, lease.Key())
			}},
			{"removed", rowlock.ErrLost, rowlock.ReasonRemoved, func(lease *rowlock.Lease) {
				exec(t, l.db, fmt.Sprintf("DELETE FROM %s WHERE name=x'%x'", l.table(), lease.Key()))
			}},
			{"released", rowlock.ErrReleased, "", func(lease *rowlock.Lease) { must(t, lease.Release(ctx)) }},
		} {
			lease := a.lock(t, c.name, rowlock.NoRenew())
			c.happen(lease)
			tx := between{l.beginAt(t, sql.LevelRepeatableRead), func() { t.Errorf("P4, %s: a statement was sent in the transaction", c.name) }}
			err := a.Guard(ctx, tx, lease)
			if !errors.Is(err, c.want) || reasonOf(err) != c.reason && c.reason != "" && lease.Err() == nil {
				t.Errorf("P4, %s: %v", c.name, err)
			}
			if err := a.MarkRun(ctx, tx, lease, "run"); !errors.Is(err, c.want) {
				t.Errorf("P4, %s, MarkRun: %v", c.name, err)
			}
			called := false
			for name, run := range map[string]func(func(context.Context, *sql.Tx) error) error{
				"InTx": func(f func(context.Context, *sql.Tx) error) error { return a.InTx(ctx, lease, f) },
				"Once": func(f func(context.Context, *sql.Tx) error) error { return a.Once(ctx, lease, "run", f) },
			} {
				if err := run(func(context.Context, *sql.Tx) error { called = true; return nil }); !errors.Is(err, c.want) || called {
					t.Errorf("P4, %s, %s: %v, called %v", c.name, name, err, called)
				}
			}
			// The transaction is still open: other keys can be locked.
			n := 0
			soon(t, c.name+": after a guard that failed another key", 500*time.Millisecond, func() {
				n++
				must(t, b.lock(t, fmt.Sprint(c.name, ", another key ", n)).Release(ctx))
			})
			must(t, tx.Rollback())
		}
	})
}

// TestP4_LostBetweenTheReads: the plain read still saw the hold.
func TestP4_LostBetweenTheReads(t *testing.T) {
	everywhere(t, func(t *testing.T, l *lab) {
		ctx := patient(t)
		a, b := l.program(t, rowlock.Options{}), l.program(t, rowlock.Options{})
		for name, level := range map[string]sql.IsolationLevel{"RR": sql.LevelRepeatableRead, "RC": sql.LevelReadCommitted} {
			lease := a.lock(t, name, rowlock.NoRenew())
			tx := between{l.beginAt(t, level), func() {
				_, err := b.Store.ForceRelease(ctx, name)
				must(t, err)
				must(t, b.lock(t, name).Release(ctx))
			}}
			if err := a.Guard(ctx, tx, lease); !errors.Is(err, rowlock.ErrLost) {
				t.Errorf("P4, %s: %v", name, err)
			}
			must(t, tx.Rollback())
			must(t, b.lock(t, name).Release(ctx))
			must(t, b.lock(t, name+" another").Release(ctx))
		}
	})
}

// TestP4_GuardNamesTheHold: under UniqueInsert two holds can have one stored token.
func TestP4_GuardNamesTheHold(t *testing.T) {
	for _, kind := range testserver.Some(t, testserver.MySQL, testserver.MariaDB) {
		t.Run(kind, func(t *testing.T) {
			l := newLab(t, kind, UniqueInsert)
			a := l.program(t, rowlock.Options{})
			lease := a.lock(t, "a", rowlock.NoRenew())
			tx := between{l.beginAt(t, sql.LevelReadCommitted), func() {
				exec(t, l.db, "UPDATE rowlock_unique SET hold=x'00112233445566778899aabbccddeeff' WHERE name='a'")
			}}
			if err := a.Guard(t.Context(), tx, lease); !errors.Is(err, rowlock.ErrLost) {
				t.Errorf("P4: guarded by the token of another hold: %v", err)
			}
		})
	}
}

// TestP4_ReleasedWhileGuarding: the release arrives while the guard is on its way.
// The hold is not handed off, and the guard says that the lease is over.
func TestP4_ReleasedWhileGuarding(t *testing.T) {
	everywhere(t, func(t *testing.T, l *lab) {
		ctx := patient(t)
		a := l.program(t, rowlock.Options{Handoff: time.Minute})
		lease := a.lock(t, "a")
		next := make(chan *rowlock.Lease)
		go func() { next <- a.lock(t, "a") }()
		eventually(t, "somebody waits", func() bool { return a.Stats().Waiting == 1 })
		tx := between{l.beginAt(t, sql.LevelRepeatableRead), func() { must(t, lease.Release(ctx)) }}
		if err := a.Guard(ctx, tx, lease); !errors.Is(err, rowlock.ErrReleased) {
			t.Errorf("P4: %v", err)
		}
		must(t, tx.Rollback())
		if got := <-next; got.Token() < lease.Token()+driver.TokenRange {
			t.Errorf("P4: the hold was handed off (token %d after %d) while a guard was on its way", got.Token(), lease.Token())
		}
	})
}

// TestP4_HandedOff: the one who has the hold guards, the one who handed it on does
// not; a hold that was guarded goes to the next only when the transaction has ended.
func TestP4_HandedOff(t *testing.T) {
	everywhere(t, func(t *testing.T, l *lab) {
		ctx := patient(t)
		a := l.program(t, rowlock.Options{Handoff: time.Minute})
		first := a.lock(t, "a")
		next := make(chan *rowlock.Lease, 1)
		wait := func() {
			go func() { next <- a.lock(t, "a") }()
			eventually(t, "somebody waits", func() bool { return a.Stats().Waiting == 1 })
		}
		wait()
		must(t, first.Release(ctx))
		second := <-next
		if second.Token() != first.Token()+1 {
			t.Fatalf("token %d after %d: not handed off", second.Token(), first.Token())
		}
		if err := a.Guard(ctx, l.beginAt(t, sql.LevelDefault), first); !errors.Is(err, rowlock.ErrReleased) {
			t.Errorf("P4: the one who handed off may guard: %v", err)
		}
		tx := l.beginAt(t, sql.LevelDefault)
		must(t, a.Guard(ctx, tx, second))
		wait()
		must(t, second.Release(ctx))
		select {
		case third := <-next:
			t.Fatalf("P4: granted (token %d after %d) while the transaction of the holder before was open", third.Token(), second.Token())
		case <-time.After(200 * time.Millisecond):
		}
		must(t, tx.Commit())
		third := <-next
		if third.Token() < second.Token()+driver.TokenRange-1 {
			t.Errorf("P4: token %d after %d is no new grant", third.Token(), second.Token())
		}
		must(t, a.Guard(ctx, l.beginAt(t, sql.LevelDefault), third))
	})
}

// TestP15_GuardDelaysNobody: while a guarded transaction is open its
// lease is renewed, the key refuses, waits and is looked at, and other keys come
// and go, all without waiting for it.
func TestP15_GuardDelaysNobody(t *testing.T) {
	testserver.Long(t)
	everywhere(t, func(t *testing.T, l *lab) {
		ctx := patient(t)
		a, b := l.program(t, rowlock.Options{}), l.program(t, rowlock.Options{})
		lease := a.lock(t, "a")
		tx := l.beginAt(t, sql.LevelRepeatableRead)
		must(t, a.Guard(ctx, tx, lease))
		waiter, cancel := context.WithCancel(ctx)
		waited := make(chan struct{})
		go func() {
			defer close(waited)
			if _, err := b.Client.Acquire(waiter, "a"); !errors.Is(err, context.Canceled) {
				t.Errorf("a waiter: %v", err)
			}
		}()
		n := 0
		for name, step := range map[string]func(){
			"renew": func() { must(t, lease.Renew(ctx)) },
			"refuse": func() {
				if _, err := b.TryAcquire(ctx, "a"); !errors.Is(err, rowlock.ErrHeld) {
					t.Fatal(err)
				}
			},
			"inspect":     func() { _, err := b.Inspect(ctx, "a"); must(t, err) },
			"another key": func() { n++; must(t, b.lock(t, fmt.Sprint("other", n)).Release(ctx)) },
		} {
			// What waits for the transaction waits for the lock wait of a second.
			best(t, "P15: while a guarded transaction was open "+name, 700*time.Millisecond, func() (worst time.Duration) {
				for range 20 {
					start := time.Now()
					step()
					worst = max(worst, time.Since(start))
				}
				return worst
			})
		}
		cancel()
		<-waited
		must(t, lease.Err())
		must(t, tx.Commit())
		must(t, lease.Release(ctx))
	})
}
