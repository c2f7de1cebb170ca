package side

import (
	"context"
	"sync/atomic"
	"time"
)

// pollerPause is the beat of the plain poller.
const pollerPause = 5 * time.Millisecond

// poller is what a first version of a database lock looks like: try, sleep 5 ms,
// try again.
type poller struct {
	try   func(ctx context.Context, key string) (bool, error)
	free  func(ctx context.Context, key string) error
	close func() error
	sent  atomic.Uint64
}

func openPoller(ctx context.Context, s Spec) (Locker, error) {
	if isMongo(s) {
		return openPollerMongo(ctx, s)
	}
	db, err := OpenSQL(s.Address, s.Callers)
	if err != nil {
		return nil, err
	}
	return &poller{
		try: func(ctx context.Context, key string) (bool, error) {
			r, err := db.ExecContext(ctx, takeRow, key)
			if err != nil {
				return false, err
			}
			n, err := r.RowsAffected()
			return n == 1, err
		},
		free: one(db, freeRow), close: db.Close,
	}, nil
}

func (p *poller) Lock(ctx context.Context, key string) (Hold, error) {
	for {
		p.sent.Add(1)
		if got, err := p.try(ctx, key); got || err != nil {
			return pollerHold{p, key}, err
		}
		select {
		case <-time.After(pollerPause):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (p *poller) Statements() uint64 { return p.sent.Load() }
func (p *poller) Close() error       { return p.close() }

type pollerHold struct {
	p   *poller
	key string
}

func (h pollerHold) Unlock(ctx context.Context) error {
	h.p.sent.Add(1)
	return h.p.free(ctx, h.key)
}
