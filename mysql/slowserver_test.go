package mysqllock

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rowlock/rowlock/mysql/internal/conn"
)

// TestP26_LockedRowOnASlowServer: the server takes long for each answer, and a stranger's transaction locks the rows of a few leases, one
// after the other. The renewals of the others, which are sent with those, do not wait until no time is left.
func TestP26_LockedRowOnASlowServer(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, l *lab) {
		const ttl, kept, locked, usual = 3 * time.Second, 12, 4, 250 * time.Millisecond
		s := l.store()
		busy := premise(t, l)
		_, lost := keepAlive(t, s, kept, func(i int) string { return fmt.Sprint("kept", i) }, ttl)
		end := make(chan struct{})
		defer close(end)
		go func() { // it is fast, which would be noticed
			for {
				select {
				case <-end:
					return
				case <-time.After(time.Millisecond):
					s.db.Usual.Store(int64(usual))
				}
			}
		}()
		for i := range locked {
			unlock := l.lockRows(fmt.Sprint("kept", i))
			conn.Sleep(patient(t), ttl*8/10)
			unlock()
			conn.Sleep(patient(t), ttl/30)
		}
		noneLost(t, max(lost()-locked, 0), kept-locked, ttl, busy()) // those whose rows were locked may be
	})
}

// TestP26_BusyRowOnASlowServer: the server takes long for each answer, and others lock the lease's row again and again, each for a moment, as
// programs do that wait for the key and leave their hints. At any instant the row is locked. The renewal is served in its turn.
func TestP26_BusyRowOnASlowServer(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, l *lab) {
		const ttl, others, moment, usual = 4 * time.Second, 5, 165 * time.Millisecond, 325 * time.Millisecond
		s := l.store()
		busy := premise(t, l)
		_, lost := keepAlive(t, s, 1, func(int) string { return "kept" }, ttl)
		end := make(chan struct{})
		var turn atomic.Int64 // the longest that one of the others waited for the row
		var wg sync.WaitGroup
		during := func(f func()) {
			wg.Go(func() {
				for {
					select {
					case <-end:
						return
					default:
						f()
					}
				}
			})
		}
		during(func() { // it is fast, which would be noticed
			s.db.Usual.Store(int64(usual))
			time.Sleep(time.Millisecond)
		})
		for range others {
			during(func() {
				tx, err := l.db.Begin()
				if err != nil {
					return
				}
				began := time.Now()
				_, _ = tx.Exec(fmt.Sprintf("SELECT name FROM %s FORCE INDEX (PRIMARY) WHERE name=x'%x' FOR UPDATE", l.table(), "kept"))
				for took := int64(time.Since(began)); ; {
					if most := turn.Load(); took <= most || turn.CompareAndSwap(most, took) {
						break
					}
				}
				time.Sleep(moment)
				_ = tx.Rollback()
			})
		}
		conn.Sleep(patient(t), ttl*3/2)
		close(end)
		wg.Wait()
		if most := time.Duration(turn.Load()); most > ttl/5 { // a renewal is waited for for a fourth of the TTL
			t.Logf("%d leases lost, on a machine so busy that a turn took %v", lost(), most)
			return
		}
		noneLost(t, lost(), 1, ttl, busy())
	})
}
