package fence

import (
	"context"
	"errors"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/rowlock/rowlock/internal/split"
	"github.com/rowlock/rowlock/mongo/internal/command"
	"github.com/rowlock/rowlock/mongo/internal/document"
)

// A key is pinned while an open transaction of an older holder has written its fence.
// That a command waited in vain proves none: on a busy server all commands take long.
// Two transactions that write one document do not wait for each other, the second one
// fails at once. So a write in a transaction of the Store asks, without waiting.

// ErrPinned: an open transaction has written the fence of the key.
var ErrPinned = errors.New("an open guarded transaction of an older holder must end first")

// Written reports whether an open transaction has written the fence of one of the keys.
// It writes them too, in a transaction that cannot live: its last statement is refused,
// with which the server undoes it, so nothing stays open whatever becomes of this
// process. A guard that comes at that moment gets a conflict, and is tried again.
func (f *Fences) Written(ctx context.Context, keys ...string) (bool, error) {
	targets := make([]Target, len(keys))
	for i, key := range keys {
		targets[i] = OfKey(key, 0, nil)
	}
	return f.written(ctx, targets)
}

func (f *Fences) written(ctx context.Context, targets []Target) (bool, error) {
	sess, err := f.sessions.Get()
	if err != nil {
		return false, err
	}
	updates := bson.A{}
	for _, t := range targets {
		write := bson.D{{Key: "q", Value: t.q}, {Key: "u", Value: document.Op("$inc", document.Op("n", int64(1)))}}
		if t.many {
			write = append(write, bson.E{Key: "multi", Value: true})
		}
		updates = append(updates, write)
	}
	// A transaction waits for the locks of the server for 5 ms only (maxTransactionLockRequestTimeoutMillis), and not at all for a document.
	for end := time.Now().Add(min(command.MaxWait, command.Left(ctx))); ; {
		open, err := f.asks(ctx, sess, updates)
		switch {
		case err == nil:
			f.sessions.Put(sess)
			return open, nil
		case command.Code(err) != command.CodeLockTimeout:
			return false, err
		case time.Now().After(end) || ctx.Err() != nil:
			f.sessions.Put(sess)
			return false, errNoWrites
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// errNoWrites: whether a transaction is open is not known. It is not the server's error, which says no more, and is one that callers are
// to repeat.
var errNoWrites = errors.New("the server lets no transaction write at the moment: db.fsyncLock, or it has no time")

// asks makes these updates in a transaction that is undone at once, and reports whether another has written one of their documents.
func (f *Fences) asks(ctx context.Context, sess *command.Session, updates bson.A) (bool, error) {
	never := bson.D{{Key: "q", Value: document.Op("_id", document.Barrier)}, {Key: "u", Value: document.Op("$set", document.Op("_id", "another"))}, {Key: "upsert", Value: true}}
	_, err := f.cmd.Send(ctx, sess, bson.D{
		{Key: "update", Value: f.collection},
		{Key: "updates", Value: append(slices.Clone(updates), never)},
		{Key: "txnNumber", Value: sess.Next()},
		{Key: "autocommit", Value: false},
		{Key: "startTransaction", Value: true},
	}, min(command.MaxWait, command.Left(ctx)))
	code := command.Code(err)
	if code != command.CodeWriteConflict && code != command.CodeImmutableField {
		return false, err
	}
	return code == command.CodeWriteConflict, nil
}

// PhaseWritten is Written for the fences of a key and of its readers and slots.
func (f *Fences) PhaseWritten(ctx context.Context, key string) (bool, error) {
	return f.written(ctx, []Target{OfPhase(key, 0), OfKey(key, 0, nil)})
}

// WhichWritten reports Written for each key: of all by one command, and where some are written
// by commands with smaller and smaller parts.
func (f *Fences) WhichWritten(ctx context.Context, keys []string) ([]bool, error) {
	open := make([]bool, len(keys))
	return open, f.findWritten(ctx, keys, open)
}

func (f *Fences) findWritten(ctx context.Context, keys []string, open []bool) error {
	some, err := f.Written(ctx, keys...)
	if err != nil || !some {
		return err
	}
	if len(keys) == 1 {
		open[0] = true
		return nil
	}
	size := max(1, len(keys)/split.Parts)
	errs := make([]error, (len(keys)+size-1)/size)
	split.InParallel(len(errs), split.Parts, func(i int) {
		from, to := i*size, min(len(keys), (i+1)*size)
		errs[i] = f.findWritten(ctx, keys[from:to], open[from:to])
	})
	return errors.Join(errs...)
}
