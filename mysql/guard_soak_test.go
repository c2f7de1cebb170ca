package mysqllock

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/internal/testserver"
	"github.com/rowlock/rowlock/locktest"
	"github.com/rowlock/rowlock/mysql/internal/conn"
	"github.com/rowlock/rowlock/mysql/internal/session"
)

// soakTime is how long a soak runs: ROWLOCK_SOAK, or a few seconds.
func soakTime(t testing.TB) time.Duration {
	t.Helper()
	text := os.Getenv("ROWLOCK_SOAK")
	if text == "" {
		return 3 * time.Second
	}
	d, err := time.ParseDuration(text)
	must(t, err)
	return d
}

// guardSoak is what a soak counts.
type guardSoak struct {
	granted, committed, refused, conflicts, renewals, reaped atomic.Int64
	stale                                                    int // commits after one with a newer token
	lost                                                     int // updates
}

// TestP4_GuardSoak: many leases end while their transactions are open, and no
// commit comes after the next grant.
func TestP4_GuardSoak(t *testing.T) {
	testserver.Long(t)
	everywhere(t, func(t *testing.T, l *lab) {
		// On a slow server no transaction ends before such short leases do: then they are longer.
		for ttl := l.keepable(); ; ttl *= 4 {
			n := runGuardSoak(t, l, soakTime(t), ttl, true)
			if n.stale > 0 || n.lost > 0 {
				locktest.Breach(t, "P4", "%d stale commits, %d lost updates", n.stale, n.lost)
			}
			if n.conflicts.Load() > 0 {
				t.Errorf("P8: %d conflicts reached the caller", n.conflicts.Load())
			}
			if t.Failed() || n.committed.Load() > 0 {
				return
			}
			if ttl > 10*time.Second {
				t.Fatal("nothing was committed")
			}
		}
	})
}

// TestP4_GuardSoakWithoutGuard is the same without guards: it must find what the
// other one looks for.
func TestP4_GuardSoakWithoutGuard(t *testing.T) {
	testserver.Long(t)
	everywhere(t, func(t *testing.T, l *lab) {
		// The longer leases of SelectForUpdate end less often, and on a busy machine there are few.
		for start := time.Now(); time.Since(start) < 3*time.Minute; {
			if n := runGuardSoak(t, l, 2*time.Second, l.keepable(), false); n.stale+n.lost > 0 {
				return
			}
		}
		t.Error("without guards no stale commit and no lost update: the soak finds nothing")
	})
}

func runGuardSoak(t *testing.T, l *lab, d, ttl time.Duration, guarded bool) *guardSoak {
	const programs, workers, keys = 4, 4, 4
	n := new(guardSoak)
	exec(t, l.db, "CREATE TABLE IF NOT EXISTS accounts (id INT PRIMARY KEY, n BIGINT, token BIGINT UNSIGNED, stale BIGINT) ENGINE=InnoDB")
	for k := range keys {
		exec(t, l.db, fmt.Sprintf("REPLACE INTO accounts VALUES (%d,0,0,0)", k))
	}
	ctx, stop := context.WithTimeout(context.Background(), d)
	defer stop()
	var wg sync.WaitGroup
	var all []program
	for range programs {
		a := l.program(t, rowlock.Options{TTL: ttl})
		all = append(all, a)
		for range workers {
			wg.Go(func() {
				for ctx.Err() == nil {
					n.turn(t, ctx, l, ttl, a, rand.IntN(keys), guarded)
					if lease, err := a.Client.TryAcquire(ctx, fmt.Sprint("cold", rand.IntN(1000))); err == nil { // for the reaper
						_ = lease.Release(context.Background())
					}
				}
			})
		}
	}
	wg.Go(func() { // the reaper, with a grace that is too short for any but a test
		for conn.Pause(ctx, 100*time.Millisecond) {
			removed, err := all[0].Store.strategy.Reap(context.Background(), time.Second)
			if err != nil {
				t.Errorf("reap: %v", err)
			}
			n.reaped.Add(int64(removed))
		}
	})
	wg.Wait()
	for _, a := range all {
		n.renewals.Add(int64(a.Stats().Renewals))
	}
	var sum int
	must(t, l.db.QueryRow("SELECT SUM(n),SUM(stale) FROM accounts").Scan(&sum, &n.stale))
	n.lost = int(n.committed.Load()) - sum
	t.Logf("granted %d, committed %d, refused %d, conflicts %d, renewals %d, reaped %d; stale commits %d, lost updates %d",
		n.granted.Load(), n.committed.Load(), n.refused.Load(), n.conflicts.Load(), n.renewals.Load(), n.reaped.Load(), n.stale, n.lost)
	return n
}

// keepable is the shortest TTL of the leases in a soak.
func (l *lab) keepable() time.Duration {
	if l.strategy == SelectForUpdate {
		return session.MinTTL
	}
	return 20 * time.Millisecond
}

// turn takes a key, reads, thinks and writes, often for longer than the lease lasts.
func (n *guardSoak) turn(t *testing.T, ctx context.Context, l *lab, ttl time.Duration, a program, key int, guarded bool) {
	var o []rowlock.Option
	if rand.IntN(3) > 0 {
		o = append(o, rowlock.NoRenew())
	}
	lease, err := a.Client.Acquire(ctx, fmt.Sprint(key), o...)
	if err != nil {
		if ctx.Err() == nil {
			t.Errorf("acquire: %v", err)
		}
		return
	}
	n.granted.Add(1)
	defer func() {
		if err := lease.Release(context.Background()); err != nil && !errors.Is(err, rowlock.ErrLost) {
			t.Errorf("release: %v", err)
		}
	}()
	write := func(_ context.Context, tx *sql.Tx) error { // whatever becomes of the lease
		ctx := context.Background()
		var value int
		var token int64
		if err := tx.QueryRowContext(ctx, fmt.Sprintf("SELECT n,token FROM accounts WHERE id=%d", key)).Scan(&value, &token); err != nil {
			return err
		}
		think := rand.N(3 * time.Millisecond)
		if rand.IntN(4) == 0 {
			think = rand.N(ttl * 2)
		}
		time.Sleep(think)
		_, err := tx.ExecContext(ctx, fmt.Sprintf("UPDATE accounts SET stale=stale+(token>%[1]d), token=GREATEST(token,%[1]d), n=%[2]d WHERE id=%[3]d", lease.Token(), value+1, key))
		return err
	}
	if rand.IntN(2) == 0 {
		time.Sleep(rand.N(ttl / 2))
	}
	switch how := rand.IntN(3); {
	case how == 0 && guarded:
		err = a.InTx(context.Background(), lease, write)
	default:
		level := sql.LevelReadCommitted
		if how == 1 {
			level = sql.LevelRepeatableRead
		}
		err = func() error {
			tx, err := l.db.BeginTx(context.Background(), &sql.TxOptions{Isolation: level})
			if err != nil {
				return err
			}
			defer tx.Rollback()
			if guarded {
				err = a.Guard(context.Background(), tx, lease)
			}
			if err == nil {
				err = write(context.Background(), tx)
			}
			if err != nil {
				return err
			}
			return tx.Commit()
		}()
	}
	switch {
	case err == nil:
		n.committed.Add(1)
	case errors.Is(err, rowlock.ErrLost):
		n.refused.Add(1)
	case errors.Is(err, rowlock.ErrConflict), !guarded && conn.Number(err) == conn.ErSnapshot: // MariaDB since 11.6 looks for lost updates of its own
		n.conflicts.Add(1)
		t.Log(err)
	default:
		t.Errorf("guarded transaction: %v", err)
	}
}
