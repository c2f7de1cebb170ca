package command

import (
	"context"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
)

var majority = bson.E{Key: "writeConcern", Value: bson.D{{Key: "w", Value: "majority"}}}

// Write sends a write that may be repeated: numbered in the session, or harmless by
// itself if there is none. The server waits at most wait for a document
// that a foreign transaction has written, and for the majority.
//
// If only the majority is late (a write concern error with code 50 or 64) the
// same command goes out again with all the time that ctx leaves: it changes
// nothing more and waits for the majority only. A numbered one gets its first
// answer again. One without a number gets an answer of its own, which is the one
// to trust (a failover may have rolled the first one back); but a release that
// finds nothing the second time wants to know what it found the first time, so
// the earlier reply comes along.
//
// A numbered write also goes out again if its connection broke. An answer then
// says nothing about the sending before, unless it wrote something (session.go): that
// one may arrive yet, and an error proves nothing about any command of the session. If its
// connection was silent every write goes out again, because it may be repeated.
func (r *Runner) Write(ctx context.Context, sess *Session, cmd bson.D, wait time.Duration) (Answer, error) {
	cmd = append(cmd, majority)
	var in *Session // in which it is numbered
	if sess != nil && !r.standalone.Load() {
		in = sess
		cmd = append(cmd, bson.E{Key: "txnNumber", Value: sess.Next()})
	}
	doubt := false // an earlier sending may have been applied
	lost := false
	var earlier bson.Raw
	for tries := 0; ; tries++ {
		limit := min(wait, Left(ctx))
		raw, err := r.Send(ctx, in, cmd, limit)
		again := err != nil && ctx.Err() == nil && tries < 3
		switch {
		case again && MajorityLate(err):
			wait, doubt = time.Minute, true
			if Matched(raw) > Matched(earlier) {
				earlier = raw
			}
		case again && (NothingSent(err) || in != nil && NotPrimary(err)):
		case again && in != nil && (Silent(err) || Repeatable(err)):
			doubt, sess.MayArrive = true, true
		case again && Silent(err):
			doubt, lost = true, true
		case err != nil && (doubt || sess != nil && sess.MayArrive):
			return Answer{raw, earlier, lost}, &doubtful{err}
		default:
			return Answer{raw, earlier, lost}, err
		}
	}
}

// WriteUntilDone is Write for an operator, who waits for the outcome: what the server does not
// finish in time goes out again with more time, until ctx ends.
func (r *Runner) WriteUntilDone(ctx context.Context, sess *Session, cmd bson.D) (Answer, error) {
	for wait := MaxWait; ; wait *= 2 {
		reply, err := r.Write(ctx, sess, cmd, wait)
		if !Blocked(err) || ctx.Err() != nil || wait > MaxWriteWait {
			return reply, err
		}
	}
}

// MaxWriteWait bounds the last try of writeUntilDone.
const MaxWriteWait = 10 * time.Second

// WriteOnce sends a write that has no number and must not be under way twice.
func (r *Runner) WriteOnce(ctx context.Context, cmd bson.D, wait time.Duration) error {
	cmd = append(cmd, majority)
	for tries := 0; ; tries++ {
		_, err := r.Send(ctx, nil, cmd, min(wait, Left(ctx)))
		if tries == 3 || ctx.Err() != nil || !NothingSent(err) {
			return err
		}
	}
}

// doubtful is an error that says nothing about an earlier sending of the same
// command.
type doubtful struct{ error }

func (e *doubtful) Unwrap() error { return e.error }
