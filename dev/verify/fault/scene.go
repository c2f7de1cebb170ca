package fault

import (
	"context"
	"math/rand/v2"
	"time"
)

// scene is an Env in the hands of one fault, with random numbers of its own.
type scene struct {
	*Env
	rand *rand.Rand
}

func (e *Env) scene() *scene {
	e.mu.Lock()
	defer e.mu.Unlock()
	return &scene{e, rand.New(rand.NewPCG(e.Rand.Uint64(), 1))}
}

// while is how long a fault lasts.
func (s *scene) while() time.Duration { return s.between(200*time.Millisecond, 2*s.TTL) }

// between is a random time.
func (s *scene) between(low, high time.Duration) time.Duration {
	if high <= low {
		return low
	}
	return low + time.Duration(s.rand.Int64N(int64(high-low))).Round(time.Millisecond)
}

// some are at least one of the items, in random order.
func some[T any](s *scene, items []T) []T {
	var list []T
	for _, i := range s.rand.Perm(len(items)) {
		list = append(list, items[i])
	}
	if len(list) < 2 {
		return list
	}
	return list[:1+s.rand.IntN(len(list))]
}

// healing is the context for undoing a fault: bounded, and not ended by the caller's.
func healing(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), 90*time.Second)
}
