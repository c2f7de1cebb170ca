package fence

import (
	"context"
	"errors"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/mongo/internal/command"
	"github.com/rowlock/rowlock/mongo/internal/document"
)

// idleWait is how long an idle server may work on the fence of one key, and wait for an open
// transaction that has written it.
const idleWait = 50 * time.Millisecond

// removeWait is the same for one that nobody waits for.
const removeWait = 25 * time.Millisecond

// Fences are those of a Store. They are for concurrent use.
type Fences struct {
	cmd        *command.Runner
	sessions   *command.Sessions
	collection string
	limit      command.Limit // of a raise
	killed     killedSessions
}

// New keeps the fences of a Store in a collection. Its commands go out by cmd, those that
// need a session in one of sessions.
func New(cmd *command.Runner, sessions *command.Sessions, collection string) *Fences {
	return &Fences{cmd: cmd, sessions: sessions, collection: collection}
}

// Forget forgets how long raises take.
func (f *Fences) Forget() { f.limit.Forget() }

// Raise lifts fences, which guarded transactions of an older token have written: it waits for
// those that are open and stops all later ones.
func (f *Fences) Raise(ctx context.Context, targets ...Target) error {
	_, err := f.raiseWithin(ctx, idleWait, targets)
	return err
}

// raiseWithin is Raise where an idle server has so much time.
func (f *Fences) raiseWithin(ctx context.Context, wait time.Duration, targets []Target) (command.Answer, error) {
	updates := make(bson.A, len(targets))
	for i, t := range targets {
		updates[i] = t.statement()
	}
	statement := bson.D{{Key: "update", Value: f.collection}, {Key: "updates", Value: updates}}
	for tries := 0; ; tries++ {
		start := time.Now()
		reply, err := f.cmd.Write(ctx, nil, statement, f.limit.Single(wait))
		if err == nil {
			f.limit.ObserveSingle(time.Since(start))
		}
		if err == nil || tries == 3 || !command.Conflicted(err) {
			return reply, err
		}
	}
}

// RaiseAsHolder is Raise by an acquire that has the lease document. Only such a one
// may end the transaction that keeps the fence down, if it is one of InTx or Once:
// its lease is over, and if its process is dead too, the server would keep the
// transaction open for a minute (transactionLifetimeLimitSeconds), because it
// belongs to a session, not to a connection.
//
// The error is ErrPinned only if there is a transaction; otherwise the server had no
// time, and gets more. at is the server's logical time of the answer.
func (f *Fences) RaiseAsHolder(ctx context.Context, wait time.Duration, targets ...Target) (at *bson.Timestamp, err error) {
	for tries := 0; ; tries++ {
		reply, err := f.raiseWithin(ctx, wait, targets)
		if err == nil {
			f.sweep(ctx, targets, reply.Matched())
		}
		if !command.Blocked(err) {
			return command.OperationTime(reply.Raw), err
		}
		open, unsure := f.written(ctx, targets)
		if open && tries == 0 {
			var ended bool
			if ended, unsure = f.endOlder(ctx, targets); ended {
				open, unsure = f.written(ctx, targets)
			}
		}
		switch {
		case unsure != nil:
			return nil, unsure
		case open:
			return nil, ErrPinned
		case tries == 2:
			return nil, err
		}
		wait = command.MaxWait
	}
}

// Find marks those of the states as fenced that are fresh and have a fence, as the
// majority has it after the moment at which they were read.
func (f *Fences) Find(ctx context.Context, states ...*document.State) error {
	of := make(map[string]*document.State)
	var keys []string
	var after *bson.Timestamp
	for _, r := range states {
		if r.Fresh && !r.Fenced {
			of[r.Key], keys, after = r, append(keys, r.Key), r.At
		}
	}
	if len(keys) == 0 {
		return nil
	}
	cmd := bson.D{
		{Key: "find", Value: f.collection},
		{Key: "filter", Value: document.ByKeys(keys)},
		{Key: "projection", Value: document.Op("_id", 1)},
		{Key: "batchSize", Value: int32(len(keys))},
		{Key: "singleBatch", Value: true},
	}
	if after != nil {
		cmd = append(cmd, command.MajorityAfter(after))
	}
	docs, err := f.cmd.Documents(ctx, cmd)
	if err != nil {
		return err
	}
	for _, r := range of {
		r.Fresh = false
	}
	for _, doc := range docs {
		if r := of[document.Parse(doc).Key]; r != nil {
			r.Fenced, r.OfPhase = true, true // there may be others beside it
		}
	}
	return nil
}

// RaiseUntilDone raises fences however long the server takes. The error is ErrPinned if
// an open transaction is in the way.
func (f *Fences) RaiseUntilDone(ctx context.Context, targets ...Target) error {
	for wait := idleWait; ; wait *= 2 {
		_, err := f.raiseWithin(ctx, wait, targets)
		if !command.Blocked(err) || ctx.Err() != nil || wait > command.MaxWriteWait {
			return err
		}
		if open, unsure := f.written(ctx, targets); open {
			return ErrPinned
		} else if unsure != nil && !command.Blocked(unsure) && !errors.Is(unsure, errNoWrites) {
			return unsure
		}
	}
}

// Name makes the fences of holds, where they are still of those, name a session of another
// hold too: one in whose transactions they are written.
func (f *Fences) Name(ctx context.Context, holds []driver.Hold, own *Session) error {
	updates := bson.A{}
	for _, h := range holds {
		updates = append(updates, bson.D{
			{Key: "q", Value: Guard(h)},
			{Key: "u", Value: document.Op("$addToSet", document.Op("with", own.ID))},
		})
	}
	_, err := f.cmd.Write(ctx, nil, bson.D{{Key: "update", Value: f.collection}, {Key: "updates", Value: updates}}, f.limit.Single(idleWait))
	if err == nil {
		own.noteNamed(holds)
	}
	return err
}
