package side

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/rowlock/rowlock"
	mongolock "github.com/rowlock/rowlock/mongo"
)

// Blocker blocks free keys: MySQL and MariaDB by a stranger's locks on their rows,
// MongoDB by guarded transactions that were left open.
type Blocker struct {
	spec    Spec
	rowlock *Rowlock
	client  *mongo.Client // MongoDB
}

// OpenBlocker opens one for a strategy.
func OpenBlocker(s Spec) (*Blocker, error) {
	if s.Kind == Mongo {
		s.Kind = Guarded
	}
	r, err := OpenRowlock(s)
	if err != nil {
		return nil, err
	}
	b := &Blocker{spec: s, rowlock: r}
	if isMongo(s) {
		if b.client, err = connectMongo(s); err != nil {
			return nil, errors.Join(err, r.Close())
		}
	}
	return b, nil
}

// Close closes it; what it blocks must be unblocked before.
func (b *Blocker) Close() error {
	err := b.rowlock.Close()
	if b.client != nil {
		err = errors.Join(err, disconnect(b.client))
	}
	return err
}

// Block blocks keys until unblock is called.
func (b *Blocker) Block(ctx context.Context, keys []string) (unblock func(), err error) {
	if b.client != nil {
		return b.guard(ctx, keys)
	}
	return b.lockRows(ctx, keys)
}

// lockRows locks the rows of keys, which it makes first. (A release with a MinHold
// keeps the row, of every strategy.)
func (b *Blocker) lockRows(ctx context.Context, keys []string) (unblock func(), err error) {
	db, err := OpenSQL(b.spec.Address, 8)
	if err != nil {
		return nil, err
	}
	rows := b.spec.Prefix + map[string]string{Version: "_version", Unique: "_unique", ForUpdate: "_session"}[b.spec.Kind] + " WHERE name=x'%x'"
	// Before the first is locked: a look by which a row is not found can lock what is left of it, and it could not be made then.
	err = forEach(keys, func(key string) error {
		for keep := time.Millisecond; keep < time.Minute; keep *= 4 {
			if err := b.leaveRow(ctx, key, keep); err != nil {
				return err
			}
			var n int
			if err := db.QueryRowContext(ctx, fmt.Sprintf("SELECT COUNT(*) FROM "+rows, key)).Scan(&n); err != nil || n > 0 {
				return err
			} // the release came so late that the row was not kept
		}
		return fmt.Errorf("the row of %q is not kept", key)
	})
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	tx, err := db.BeginTx(context.WithoutCancel(ctx), &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	unblock = func() { _, _ = tx.Rollback(), db.Close() }
	for _, key := range keys { // one by one: a list may be looked up by a scan, which locks every row
		var name string
		if err := tx.QueryRowContext(ctx, fmt.Sprintf("SELECT name FROM "+rows+" FOR UPDATE", key)).Scan(&name); err != nil {
			unblock()
			return nil, fmt.Errorf("lock the row of %q: %w", key, err)
		}
	}
	return unblock, nil
}

// leaveRow makes the row of a key that is free.
func (b *Blocker) leaveRow(ctx context.Context, key string, keep time.Duration) error {
	lease, err := b.rowlock.Client.Acquire(ctx, key, rowlock.MinHold(keep))
	if err != nil {
		return err
	}
	return lease.Release(ctx)
}

// guard leaves a transaction open for each key that was guarded by a lease which has
// been released.
func (b *Blocker) guard(ctx context.Context, keys []string) (unblock func(), err error) {
	store := b.rowlock.Store.(*mongolock.Store)
	var mu sync.Mutex
	var open []*mongo.Session
	unblock = func() {
		for _, s := range open {
			_ = s.AbortTransaction(context.Background())
			s.EndSession(context.Background())
		}
	}
	err = forEach(keys, func(key string) error {
		lease, err := b.rowlock.Client.Acquire(ctx, key, rowlock.Guarded())
		if err != nil {
			return err
		}
		sess, err := b.client.StartSession()
		if err == nil {
			mu.Lock()
			open = append(open, sess)
			mu.Unlock()
			err = sess.StartTransaction()
		}
		if err == nil {
			err = store.Guard(mongo.NewSessionContext(ctx, sess), lease)
		}
		return errors.Join(err, lease.Release(ctx))
	})
	if err != nil {
		unblock()
		return nil, err
	}
	return unblock, nil
}

// forEach does something with each key, some at a time.
func forEach(keys []string, do func(string) error) error {
	errs := make([]error, len(keys))
	var wg sync.WaitGroup
	room := make(chan struct{}, 16)
	for i, key := range keys {
		room <- struct{}{}
		wg.Go(func() {
			defer func() { <-room }()
			errs[i] = do(key)
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}
