package mysqllock

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/testserver"
	"github.com/rowlock/rowlock/mysql/internal/conn"
)

// TestSoak mixes everything on few keys: single and batched acquires of several
// programs, abandoned holds that expire, guarded transactions that outlive their
// lease, batched renewals, releases with and without MinHold. A key has one holder
// at a time, tokens rise in the order of grants, and no deadlock, lock-wait time-out
// or duplicate key reaches the caller.
func TestSoak(t *testing.T) {
	testserver.Long(t)
	t.Parallel()
	each(t, func(t *testing.T, l *lab) {
		ctx, stop := context.WithTimeout(context.Background(), 4*time.Second)
		defer stop()
		l.store()
		type keyState struct {
			holders atomic.Int32
			token   atomic.Int64
		}
		var states [4]keyState
		var granted, held, pinned, unknown, guarded, notRenewed atomic.Int64
		var wg sync.WaitGroup
		for program := range 4 {
			s := l.bare()
			for worker := range 6 {
				wg.Go(func() {
					r := rand.New(rand.NewPCG(uint64(program), uint64(worker)))
					for n := 0; ctx.Err() == nil; n++ {
						k := r.IntN(len(states))
						state := &states[k]
						q := request(fmt.Sprint("hot", k), time.Minute)
						abandoned := r.IntN(8) == 0
						if abandoned {
							q.TTL = 20 * time.Millisecond
						}
						if r.IntN(10) == 0 {
							q.Keep = 10 * time.Millisecond
						}
						reqs := []driver.Request{q}
						if program < 2 {
							for i := range 1 + r.IntN(8) {
								reqs = append(reqs, request(fmt.Sprint("cold", program, worker, n, i), time.Minute))
							}
						}
						results, err := s.Acquire(context.Background(), reqs)
						if err != nil {
							t.Errorf("acquire: %v", err)
							continue
						}
						var holds []driver.Hold
						for i, res := range results {
							if res.Status == driver.Granted && !(i == 0 && abandoned) {
								holds = append(holds, driver.Hold{Key: reqs[i].Key, ID: reqs[i].ID, Token: res.Token, Stored: res.Stored, TTL: time.Minute, Keep: reqs[i].Keep})
							} else if i > 0 && res.Status != driver.Granted {
								unknown.Add(1)
							}
						}
						mine := false
						switch results[0].Status {
						case driver.Held:
							held.Add(1)
						case driver.Pinned:
							pinned.Add(1)
						case driver.Unknown:
							if !driver.IsNotApplied(results[0].Err) { // else the row could not be made, on a busy machine
								t.Errorf("acquire: unknown: %v", results[0].Err)
							}
						case driver.Granted:
							granted.Add(1)
							if abandoned {
								break
							}
							mine = true
							if n := state.holders.Add(1); n != 1 {
								t.Errorf("%s has %d holders", q.Key, n)
							}
							if last := state.token.Swap(results[0].Token); last >= results[0].Token {
								t.Errorf("%s: token %d after %d", q.Key, results[0].Token, last)
							}
						}
						if len(holds) == 0 {
							continue
						}
						conn.Pause(ctx, time.Duration(1+r.IntN(3000))*time.Microsecond)
						renewed, err := s.Renew(context.Background(), holds)
						if err != nil {
							t.Errorf("renew: %v", err)
							renewed = nil
						}
						for i, res := range renewed {
							switch {
							case res.Status == driver.Alive:
							case res.Status == driver.Unknown && driver.IsNotApplied(res.Err):
								notRenewed.Add(1)
							default:
								t.Errorf("renew %s: %v %v", holds[i].Key, res.Status, res.Err)
							}
						}
						end := func() {}
						if mine && r.IntN(4) == 0 {
							end = openGuard(t, l, holds[0])
							holds[0].Guarded = true
							guarded.Add(1)
						}
						if mine {
							state.holders.Add(-1)
						}
						for len(holds) > 0 {
							released, err := s.Release(context.Background(), holds)
							if err != nil {
								t.Errorf("release: %v", err)
								break
							}
							again := holds[:0:0]
							for i, res := range released {
								switch {
								case res.Status == driver.Released:
								case res.Status == driver.Unknown && driver.IsNotApplied(res.Err):
									again = append(again, holds[i])
								default:
									t.Errorf("release %s: %v %v", holds[i].Key, res.Status, res.Err)
								}
							}
							holds = again
						}
						conn.Pause(ctx, time.Duration(1+r.IntN(30000))*time.Microsecond)
						end()
					}
				})
			}
		}
		wg.Wait()
		t.Logf("granted %d, held %d, pinned %d, guarded %d; cold keys without a grant %d, renewals to repeat %d",
			granted.Load(), held.Load(), pinned.Load(), guarded.Load(), unknown.Load(), notRenewed.Load())
	})
}

// openGuard opens a guarded transaction of the hold.
func openGuard(t *testing.T, l *lab, h driver.Hold) (end func()) {
	tx, err := l.db.Begin()
	if err != nil {
		t.Error(err)
		return func() {}
	}
	which := ""
	if l.strategy == UniqueInsert {
		which = fmt.Sprintf(" AND hold=x'%x'", h.ID[:])
	}
	var token uint64
	err = tx.QueryRow(fmt.Sprintf("SELECT token FROM %s FORCE INDEX (guard) WHERE token=%d AND name=x'%x'%s LOCK IN SHARE MODE", l.table(), h.Stored, h.Key, which)).Scan(&token)
	if err != nil {
		t.Errorf("guard: %v", err)
	}
	return func() { _ = tx.Rollback() }
}
