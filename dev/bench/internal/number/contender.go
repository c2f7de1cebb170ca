package number

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/rowlock/rowlock/dev/bench/internal/fleet"
	"github.com/rowlock/rowlock/dev/bench/internal/measure"
	"github.com/rowlock/rowlock/dev/bench/internal/side"
)

// Roles are what a copy of this program can be.
var Roles = map[string]func(context.Context, *fleet.Parent) error{
	"contender": contender,
	"holder":    holder,
}

// contest is the task of a process of N4.
type contest struct {
	Spec    side.Spec
	Key     string // the first of Keys
	Keys    int    // each hold is of one of them, by chance; 0: one
	Waiters int
	Hold    time.Duration
	Timed   bool // each wait is recorded, also where the hold is 0
}

// span is when it begins and ends, in nanoseconds since 1970: the processes share
// a clock.
type span struct{ From, To int64 }

// stint is the time for which one process had a key: one hold, or several that
// were handed off inside it.
type stint struct {
	Key   string
	Got   int64 // after the first Lock returned
	End   int64 // before the last Unlock was called
	Holds int
}

// contested is what a process of N4 has found.
type contested struct {
	Stints     []stint
	Turns      []int     // of each waiter
	Waits      []float64 // ms, where the key is held for a while: the last one was cut off
	Longest    time.Duration
	Statements uint64
	Counts     bool // Statements is known
}

// contender is a process of N4: its waiters take the key in turns until the end.
func contender(ctx context.Context, p *fleet.Parent) error {
	var task contest
	if err := p.Receive(&task); err != nil {
		return err
	}
	l, err := side.Open(ctx, task.Spec)
	if err != nil {
		return err
	}
	// One cycle of another key: connections are open.
	h, err := l.Lock(ctx, side.Key(side.Keys-1))
	if err == nil {
		err = h.Unlock(ctx)
	}
	if err != nil {
		return err
	}
	if err := p.Send("ready"); err != nil {
		return err
	}
	var when span
	if err := p.Receive(&when); err != nil {
		return err
	}
	out, err := compete(ctx, l, task, when)
	if err != nil {
		return err
	}
	if err := p.Send(out); err != nil {
		return err
	}
	return l.Close()
}

func compete(ctx context.Context, l side.Locker, task contest, when span) (*contested, error) {
	// Not a deadline: drivers end their statements a little before it, with errors of
	// their own.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	end := time.AfterFunc(time.Until(time.Unix(0, when.To)), cancel)
	defer end.Stop()
	out := &contested{Turns: make([]int, task.Waiters)}
	var (
		mu    sync.Mutex
		wg    sync.WaitGroup
		token int64 // of the last hold here
		first error
	)
	time.Sleep(time.Until(time.Unix(0, when.From)))
	before, counts := side.Statements(l)
	for w := range task.Waiters {
		wg.Go(func() {
			for ctx.Err() == nil {
				key := task.Key
				if task.Keys > 0 {
					key = side.Key(rand.IntN(task.Keys))
				}
				since := time.Now()
				h, err := l.Lock(ctx, key)
				got := time.Now()
				mu.Lock()
				out.Longest = max(out.Longest, got.Sub(since))
				if task.Hold > 0 || task.Timed {
					out.Waits = append(out.Waits, measure.Millis(got.Sub(since)))
				}
				if err != nil {
					if ctx.Err() == nil && first == nil {
						first = err
						cancel()
					}
					mu.Unlock()
					return
				}
				out.Turns[w]++
				// A token that follows the last one here was handed off: no other
				// process had the key in between.
				t, tokened := h.(side.Tokened)
				tokened = tokened && task.Keys == 0
				if n := len(out.Stints); tokened && n > 0 && t.Token() == token+1 {
					out.Stints[n-1].Holds++
				} else {
					out.Stints = append(out.Stints, stint{Key: key, Got: got.UnixNano(), Holds: 1})
				}
				if tokened {
					token = t.Token()
				}
				mine := len(out.Stints) - 1
				mu.Unlock()
				if task.Hold > 0 {
					time.Sleep(task.Hold)
				}
				mu.Lock()
				out.Stints[mine].End = time.Now().UnixNano()
				mu.Unlock()
				give, done := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
				err = h.Unlock(give)
				done()
				if err != nil {
					mu.Lock()
					first = errors.Join(first, err)
					mu.Unlock()
					cancel()
					return
				}
			}
		})
	}
	wg.Wait()
	after, _ := side.Statements(l)
	out.Statements, out.Counts = after-before, counts
	return out, first
}
