package side

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"github.com/rowlock/rowlock/driver"
)

// singlePatience is how long a step is repeated.
const singlePatience = 10 * time.Second

// singleMongo calls the store with one key at a time: its commands without
// coalescing. A step that the server was too busy for is repeated.
type singleMongo struct{ r *Rowlock }

func openSingleMongo(_ context.Context, s Spec) (Locker, error) {
	s.Kind = Mongo
	r, err := OpenRowlock(s)
	if err != nil {
		return nil, err
	}
	return singleMongo{r}, nil
}

func (s singleMongo) Lock(ctx context.Context, key string) (Hold, error) {
	q := driver.Request{Key: key, Owner: "bench", TTL: 30 * time.Second}
	_, _ = rand.Read(q.ID[:])
	for begin := time.Now(); ; {
		results, err := s.r.Store.Acquire(ctx, []driver.Request{q})
		if err != nil {
			if ctx.Err() != nil || time.Since(begin) > singlePatience {
				return nil, err
			}
			continue
		}
		switch r := results[0]; r.Status {
		case driver.Granted:
			return singleMongoHold{s, driver.Hold{Key: key, ID: q.ID, Token: r.Token, Stored: r.Stored}}, nil
		case driver.Pinned, driver.Unknown: // the server was busy for longer than the step may take
		default:
			return nil, fmt.Errorf("acquire of %s: %v", key, r.Status)
		}
	}
}

func (s singleMongo) Close() error { return s.r.Close() }

type singleMongoHold struct {
	s singleMongo
	h driver.Hold
}

func (h singleMongoHold) Unlock(ctx context.Context) error {
	for begin := time.Now(); ; {
		results, err := h.s.r.Store.Release(ctx, []driver.Hold{h.h})
		if err != nil {
			if ctx.Err() != nil || time.Since(begin) > singlePatience {
				return err
			}
			continue
		}
		if results[0].Status != driver.Unknown { // a repeat may find that it is done
			return nil
		}
	}
}
