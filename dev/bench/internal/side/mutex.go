package side

import (
	"context"
	"sync"
	"time"
)

// NewMutex is a Locker that is a mutex of this process: what goroutines reach that have
// no need of a lock of others.
func NewMutex() Locker {
	var mu sync.Mutex
	return &funcs{
		lock:   func(context.Context, string) error { mu.Lock(); return nil },
		unlock: func(context.Context, string) error { mu.Unlock(); return nil },
		close:  func() error { return nil },
	}
}

// Holding is l, each of whose holds lasts for d before its unlock begins.
func Holding(l Locker, d time.Duration) Locker { return holding{l, d} }

type holding struct {
	Locker
	d time.Duration
}

func (l holding) Lock(ctx context.Context, key string) (Hold, error) {
	h, err := l.Locker.Lock(ctx, key)
	if err != nil {
		return nil, err
	}
	return heldFor{h, l.d}, nil
}

type heldFor struct {
	Hold
	d time.Duration
}

func (h heldFor) Unlock(ctx context.Context) error {
	time.Sleep(h.d)
	return h.Hold.Unlock(ctx)
}
