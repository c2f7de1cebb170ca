package round

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/rowlock/rowlock/dev/verify/fault"
	"github.com/rowlock/rowlock/dev/verify/history"
	"github.com/rowlock/rowlock/dev/verify/timed"
)

// injector makes faults happen, several at once, and records them.
type injector struct {
	env    *fault.Env
	faults []fault.Fault
	rec    *history.Recorder
	gap    time.Duration // between two faults of one line, at most

	mu      sync.Mutex
	used    map[string]bool // by the faults that are under way
	failed  []error
	dropped []string // the names of faults that cannot be run here
}

// run injects in so many lines at once until ctx ends, and returns when all is whole.
func (in *injector) run(ctx context.Context, seed uint64, lines int) error {
	in.used = map[string]bool{}
	if len(in.faults) == 0 {
		<-ctx.Done()
		return nil
	}
	var all sync.WaitGroup
	for i := range lines {
		all.Go(func() {
			r := rand.New(rand.NewPCG(seed, uint64(i)+1))
			for {
				timed.Rest(ctx, time.Duration(r.Int64N(int64(in.gap))))
				if ctx.Err() != nil {
					return
				}
				in.one(ctx, r)
			}
		})
	}
	all.Wait()
	in.mu.Lock()
	defer in.mu.Unlock()
	if len(in.failed) > 0 {
		return in.failed[0]
	}
	return nil
}

// one injects a fault that is in the way of none that is under way.
func (in *injector) one(ctx context.Context, r *rand.Rand) {
	f, ok := in.draw(r)
	if !ok {
		return
	}
	defer in.give(f)
	e := in.rec.Begin(history.Event{Kind: history.Fault, Key: f.Name})
	what, err := f.Inject(ctx, in.env)
	if errors.Is(err, errors.ErrUnsupported) {
		in.drop(f)
		return
	}
	if err != nil && (ctx.Err() == nil || errors.Is(err, fault.ErrNotWhole)) {
		in.mu.Lock()
		in.failed = append(in.failed, fmt.Errorf("fault %s: %w", f.Name, err))
		in.mu.Unlock()
	}
	if err != nil {
		what += " (" + err.Error() + ")"
	}
	if what != "" {
		e.Error = what
		in.rec.End(e)
	}
}

// draw takes one of the faults by their weights.
func (in *injector) draw(r *rand.Rand) (fault.Fault, bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	at, sum := r.Float64(), 0
	var free []fault.Fault
	for _, f := range in.faults {
		if !in.inUse(f) {
			free = append(free, f)
			sum += f.Weight
		}
	}
	at *= float64(sum)
	for _, f := range free {
		if at -= float64(f.Weight); at < 0 {
			for _, name := range f.Uses {
				in.used[name] = true
			}
			return f, true
		}
	}
	return fault.Fault{}, false
}

// drop draws a fault never again: it needs what this system or build does not have.
func (in *injector) drop(f fault.Fault) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.faults = slices.DeleteFunc(slices.Clone(in.faults), func(g fault.Fault) bool { return g.Name == f.Name })
	in.dropped = append(in.dropped, f.Name)
}

func (in *injector) inUse(f fault.Fault) bool {
	for _, name := range f.Uses {
		if in.used[name] {
			return true
		}
	}
	return false
}

func (in *injector) give(f fault.Fault) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for _, name := range f.Uses {
		delete(in.used, name)
	}
}
