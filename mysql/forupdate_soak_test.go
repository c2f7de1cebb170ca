package mysqllock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/testserver"
	"github.com/rowlock/rowlock/locktest"
	"github.com/rowlock/rowlock/mysql/internal/conn"
	"github.com/rowlock/rowlock/mysql/internal/session"
)

// TestForUpdateSoak ends sessions at random while several programs take few keys.
// Whoever could still commit a guarded transaction had the newest token, tokens
// rise in the order of the grants, and no deadlock reaches the caller.
func TestForUpdateSoak(t *testing.T) {
	testserver.Long(t)
	onBoth(t, func(t *testing.T, l *lab) {
		ctx, stop := context.WithTimeout(context.Background(), 5*time.Second)
		defer stop()
		l.store()
		const keys = 4
		exec(t, l.db, "CREATE TABLE written (id BIGINT AUTO_INCREMENT PRIMARY KEY, name VARBINARY(255), token BIGINT UNSIGNED) ENGINE=InnoDB")
		var granted, held, pinned, unknown, written, refused, kills, lost atomic.Int64
		var wg sync.WaitGroup
		for program := range 3 {
			s := l.bare()
			f := func() *session.ForUpdate { return s.strategy.(*session.ForUpdate) }
			for worker := range 6 {
				wg.Go(func() {
					r := rand.New(rand.NewPCG(uint64(program), uint64(worker)))
					for ctx.Err() == nil {
						q := request(fmt.Sprint("hot", r.IntN(keys)), time.Minute)
						results, err := s.Acquire(context.Background(), []driver.Request{q})
						if err != nil {
							t.Errorf("acquire: %v", err)
							continue
						}
						h := driver.Hold{Key: q.Key, ID: q.ID, Token: results[0].Token, Stored: results[0].Stored, TTL: q.TTL}
						switch results[0].Status {
						case driver.Held:
							held.Add(1)
							conn.Pause(ctx, 3*time.Millisecond)
							continue
						case driver.Pinned:
							pinned.Add(1)
							conn.Pause(ctx, 10*time.Millisecond)
							continue
						case driver.Unknown:
							unknown.Add(1)
							if n := conn.Number(results[0].Err); n == conn.ErDeadlock || n == conn.ErLockWait {
								t.Errorf("acquire: %v", results[0].Err)
							}
							h.Undo = true
							if r, err := s.Release(context.Background(), []driver.Hold{h}); err != nil || !driver.IsNotApplied(results[0].Err) && !r[0].Final {
								t.Errorf("undo after %v: %+v, %v", results[0].Err, r, err)
							}
							continue
						}
						granted.Add(1)
						conn.Pause(ctx, time.Duration(1+r.IntN(5000))*time.Microsecond)
						if own := f().SessionOf(h); own != nil && r.IntN(4) == 0 {
							_, _ = l.db.Exec(fmt.Sprintf("KILL CONNECTION %d", own.ID))
							kills.Add(1)
							conn.Pause(ctx, time.Duration(1+r.IntN(20000))*time.Microsecond)
						}
						switch err := writeGuarded(l, h); {
						case err == nil:
							written.Add(1)
						case errors.Is(err, errStale):
							refused.Add(1)
						default:
							t.Errorf("guarded transaction: %v", err)
						}
						released, err := s.Release(context.Background(), []driver.Hold{h})
						if err != nil {
							t.Errorf("release: %v", err)
						} else if st := released[0].Status; st == driver.Unknown {
							t.Errorf("release: %v", released[0].Err)
						} else if st != driver.Released {
							lost.Add(1)
						}
					}
				})
			}
		}
		wg.Wait()
		var broken int
		must(t, l.db.QueryRow("SELECT COUNT(*) FROM written a JOIN written b ON b.name=a.name AND b.id>a.id AND b.token<a.token").Scan(&broken))
		t.Logf("granted %d, held %d, pinned %d, unknown %d, sessions killed %d, lost %d, guarded transactions %d, refused %d",
			granted.Load(), held.Load(), pinned.Load(), unknown.Load(), kills.Load(), lost.Load(), written.Load(), refused.Load())
		if broken > 0 {
			locktest.Breach(t, "P4", "%d writes of a stale holder", broken)
		}
		if granted.Load() == 0 || kills.Load() == 0 {
			t.Error("nothing happened")
		}
	})
}

var errStale = errors.New("stale")

// writeGuarded writes the token in a guarded transaction. The rows of a key are
// numbered in the order of their commits, because a guard excludes the next grant.
func writeGuarded(l *lab, h driver.Hold) error {
	tx, err := l.db.Begin()
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	var token uint64
	if err := l.db.QueryRow(fmt.Sprintf("SELECT token FROM %s WHERE name=x'%x' AND hold=x'%x'", l.table(), h.Key, h.ID[:])).Scan(&token); err != nil {
		return errStale
	}
	if err := tx.QueryRow(fmt.Sprintf("SELECT token FROM %s FORCE INDEX (guard) WHERE token=%d AND name=x'%x' LOCK IN SHARE MODE", l.table(), h.Stored, h.Key)).Scan(&token); err != nil {
		return errStale
	}
	if _, err := tx.Exec(fmt.Sprintf("INSERT INTO written (name,token) VALUES (x'%x',%d)", h.Key, h.Token)); err != nil {
		return err
	}
	return tx.Commit()
}
