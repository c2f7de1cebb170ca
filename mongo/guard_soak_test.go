package mongolock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/internal/testserver"
	"github.com/rowlock/rowlock/locktest"
	"github.com/rowlock/rowlock/mongo/internal/document"
)

// soakTime is how long a soak takes: some seconds, or what ROWLOCK_SOAK says.
func soakTime(t testing.TB, some time.Duration) time.Duration {
	text := os.Getenv("ROWLOCK_SOAK")
	if text == "" {
		return some
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatalf("ROWLOCK_SOAK=%q: %v", text, err)
	}
	return d
}

// soak is 16 workers with four clients and two keys, whose short leases expire often.
// Each reads a number outside of any transaction, waits, and writes the next one in
// a guarded transaction; or in one without a guard, to show that the soak finds what
// the guard prevents.
type soak struct {
	t       *testing.T
	s       *Store
	guarded bool

	committed [soakKeys]atomic.Int64
	lost      atomic.Int64 // transactions that were refused
}

const soakKeys = 2

// TestP4_Soak: no commit behind a newer one, no update lost.
func TestP4_Soak(t *testing.T) {
	testserver.Long(t)
	k := &soak{t: t, s: shared(t), guarded: true}
	stale, lost := k.run(soakTime(t, 5*time.Second))
	if stale != 0 || lost != 0 {
		locktest.Breach(t, "P4", "%d stale commits, %d lost updates", stale, lost)
	}
}

// TestSoakWithoutGuard: the same without the guard finds some.
func TestSoakWithoutGuard(t *testing.T) {
	testserver.Long(t)
	stale, lost := int64(0), int64(0)
	for range 8 { // until chance has both
		k := &soak{t: t, s: shared(t)}
		s, l := k.run(2 * time.Second)
		if stale, lost = stale+s, lost+l; stale > 0 && lost > 0 {
			return
		}
	}
	t.Error("no stale commit and no lost update without the guard: the soak finds nothing")
}

func (k *soak) run(d time.Duration) (stale, lost int64) {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	uri := testserver.DSN(k.t, testserver.Mongo)
	for key := range soakKeys {
		must(k.t, add(context.Background(), k.s, soakKey(key)))
		must(k.t, add(context.Background(), k.s, soakKey(key)+" stale"))
	}
	var wg sync.WaitGroup
	for range 4 {
		s := beside(k.t, k.s, uri)
		c := locker(k.t, s, rowlock.Options{TTL: 60 * time.Millisecond, Margin: 5 * time.Millisecond})
		for worker := range 4 {
			wg.Go(func() { k.work(ctx, s, c, worker) })
		}
	}
	wg.Go(func() {
		for ctx.Err() == nil { // a grace that no one may ask for: the reaper takes what is just free
			if _, err := k.s.reap(ctx, 0); err != nil && ctx.Err() == nil {
				k.t.Errorf("reap: %v", err)
			}
			time.Sleep(40 * time.Millisecond)
		}
	})
	wg.Wait()
	commits := int64(0)
	for key := range soakKeys {
		lost += k.committed[key].Load() + 1 - number(k.t, k.s, soakKey(key))
		stale += number(k.t, k.s, soakKey(key)+" stale") - 1
		commits += k.committed[key].Load()
	}
	k.t.Logf("guard %v: %d commits, %d refused; %d stale, %d lost", k.guarded, commits, k.lost.Load(), stale, lost)
	if commits == 0 {
		k.t.Error("no commit at all")
	}
	return stale, lost
}

func soakKey(key int) string { return fmt.Sprint("soak", key) }

func (k *soak) work(ctx context.Context, s *Store, c *rowlock.Client, worker int) {
	for ctx.Err() == nil {
		key := rand.IntN(soakKeys)
		opts := []rowlock.Option{rowlock.Guarded()}
		if worker%2 == 0 {
			opts = append(opts, rowlock.NoRenew())
		}
		lease, err := c.Acquire(ctx, soakKey(key), opts...)
		if err != nil {
			if ctx.Err() == nil {
				k.t.Errorf("acquire: %v", err)
			}
			continue
		}
		n := number(k.t, s, soakKey(key))
		pause := func() { time.Sleep(rand.N(60 * time.Millisecond)) }
		pause()
		err = k.transaction(s, lease, worker, func(ctx context.Context) error {
			if rand.IntN(2) == 0 {
				pause()
			}
			return k.write(ctx, s, lease, key, n+1)
		})
		switch {
		case err == nil:
			k.committed[key].Add(1)
		case errors.Is(err, rowlock.ErrLost):
			k.lost.Add(1)
		default:
			k.t.Errorf("transaction: %v", err)
		}
		_ = lease.Release(context.Background())
	}
}

// transaction is one of three kinds.
func (k *soak) transaction(s *Store, lease *rowlock.Lease, worker int, fn func(context.Context) error) error {
	if k.guarded && worker < 2 {
		return s.InTx(context.Background(), lease, fn)
	}
	sess, err := s.db.Client().StartSession()
	if err != nil {
		return err
	}
	defer sess.EndSession(context.Background())
	last := worker == 3 // the guard comes last
	_, err = sess.WithTransaction(context.Background(), func(ctx context.Context) (any, error) {
		if k.guarded && !last {
			if err := s.Guard(ctx, lease); err != nil {
				return nil, err
			}
		}
		if err := fn(ctx); err != nil {
			return nil, err
		}
		if k.guarded && last {
			return nil, s.Guard(ctx, lease)
		}
		return nil, nil
	}, ownTransactions)
	return err
}

// write sets the number, and notes if a newer holder has done so before.
func (k *soak) write(ctx context.Context, s *Store, lease *rowlock.Lease, key int, n int64) error {
	var before struct{ Token int64 }
	err := data(s).FindOneAndUpdate(ctx, document.Op("_id", soakKey(key)),
		document.Op("$set", bson.D{{Key: "n", Value: n}, {Key: "token", Value: lease.Token()}})).Decode(&before)
	if err != nil && !errors.Is(err, mongo.ErrNoDocuments) {
		return err
	}
	if before.Token > lease.Token() {
		return add(ctx, s, soakKey(key)+" stale")
	}
	return nil
}
