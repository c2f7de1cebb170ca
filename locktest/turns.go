// Many callers in many programs want one key, and each of them gets it.

package locktest

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/rowlock/rowlock"
)

var turns = []testCase{
	{name: "Wait_EveryoneGetsATurn", long: true, run: everyonesTurn, needs: processes},
	{name: "Wait_LoopsGetTheirTurns", long: true, run: loopsTurns, needs: processes},
}

// everyonesTurn has the callers of four processes take the key for 20 ms again and
// again, until each of them has had it twice. No promise says which is next: what
// must not be is that one is always the last, however long it goes on.
func everyonesTurn(t *testing.T, e *env) { takeTurns(t, e, 8) }

// loopsTurns does so with a single caller in each, which takes the key again right
// after its release: nobody waits in a program whose turn it is not any more.
func loopsTurns(t *testing.T, e *env) { takeTurns(t, e, 1) }

func takeTurns(t *testing.T, e *env, waiters int) {
	const programs = 4
	j := job{Role: "turns", Key: e.key(t), TTL: longTTL, Rounds: 2, Waiters: waiters}
	began := time.Now()
	var children []*process
	for range programs {
		children = append(children, e.start(t, j))
	}
	for _, p := range children {
		p.expect("all")
	}
	t.Logf("each of %d callers in %d processes had its turn twice after %v", programs*waiters, programs, time.Since(began))
	for _, p := range children {
		p.tell("enough")
	}
	for i, p := range children {
		t.Logf("process %d: %s", i, p.expect("turns"))
	}
}

// turns has waiters take the key in turns until it is told that it is enough. It
// says "all" when each has had Rounds turns.
func (j job) turns(ctx context.Context, c *rowlock.Client, input <-chan string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var all, done sync.WaitGroup
	all.Add(j.Waiters * j.Rounds)
	taken := make([]int, j.Waiters)
	longest := make([]time.Duration, j.Waiters)
	errs := make(chan error, j.Waiters)
	for w := range j.Waiters {
		done.Go(func() {
			for ctx.Err() == nil {
				began := time.Now()
				lease, err := c.Acquire(ctx, j.Key)
				if err != nil {
					if ctx.Err() == nil {
						errs <- err
					}
					return
				}
				longest[w] = max(longest[w], time.Since(began))
				time.Sleep(20 * time.Millisecond)
				if err := lease.Release(ctx); err != nil {
					errs <- err
					return
				}
				if taken[w]++; taken[w] <= j.Rounds {
					all.Done()
				}
			}
		})
	}
	went := make(chan struct{})
	go func() { all.Wait(); close(went) }()
	select {
	case <-went:
	case err := <-errs:
		return err
	}
	fmt.Println("all")
	<-input
	cancel()
	done.Wait()
	sum, most := 0, time.Duration(0)
	for w := range j.Waiters {
		sum += taken[w]
		most = max(most, longest[w])
	}
	fmt.Printf("turns %d, the longest wait %v\n", sum, most.Round(time.Millisecond))
	return nil
}
