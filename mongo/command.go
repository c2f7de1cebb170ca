package mongolock

import (
	"context"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/rowlock/rowlock/mongo/internal/document"
)

// Every command of the Store goes out as a document of its own (RunCommand), not
// through the driver's helpers, because three things must be exact that the
// helpers of mongo-driver 2.9 do not offer:
//
//   - maxTimeMS, the server's own limit. The helpers derive it from the context's
//     deadline, and the client then gives up at the same moment: it never learns
//     that the server had refused, which is what tells pinned from unknown.
//   - the number of a retryable write (see session.go).
//   - the reply of a write together with its write concern error.
//
// The price is that the driver repeats nothing: write and read below do.

// callContext carries the caller's cancellation to the driver, but not its
// deadline, from which the driver would make a second maxTimeMS. A far deadline
// also keeps the client's own Timeout option from making one. (mongo-driver
// 2.9.3, internal/driverutil.CalculateMaxTimeMS: none beyond 24 days.)
type callContext struct{ context.Context }

var farAway = time.Now().Add(100 * 365 * 24 * time.Hour)

func (callContext) Deadline() (time.Time, bool) { return farAway, true }

// Err says Canceled also when the deadline has passed: the driver closes the
// connection for both, but takes an unexplained end of a connection for a failure
// of the server and would clear the pool.
func (c callContext) Err() error {
	if c.Context.Err() != nil {
		return context.Canceled
	}
	return nil
}

// send sends one command to the primary, in sess or in none of the caller's, and
// returns when it is answered or ctx ends; then its connection is closed. So it is, with
// errSilent, if the command is overdue and its connection dead (silence.go). A reply
// with write errors or a write concern error comes with an error too.
func (s *Store) send(ctx context.Context, sess *mongo.Session, cmd bson.D, limit time.Duration) (bson.Raw, error) {
	if limit > 0 {
		cmd = append(cmd[:len(cmd):len(cmd)], maxTime(limit))
	}
	leave, err := s.conns.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	watched, stop := s.watchSilence(ctx, limit)
	defer stop()
	return s.run(watched, sess, cmd)
}

// sendUnlimited is send for a command that may take as long as ctx lasts.
func (s *Store) sendUnlimited(ctx context.Context, sess *mongo.Session, cmd bson.D) (bson.Raw, error) {
	leave, err := s.conns.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	return s.run(ctx, sess, cmd)
}

func (s *Store) run(ctx context.Context, sess *mongo.Session, cmd bson.D) (bson.Raw, error) {
	s.statements.Add(1)
	raw, err := s.db.RunCommand(mongo.NewSessionContext(callContext{ctx}, sess), cmd).Raw()
	if cause := context.Cause(ctx); err != nil && (cause == errSilent || cause == errAbsent) {
		err = fmt.Errorf("%w (%w)", cause, err)
	}
	return raw, err
}

var majority = bson.E{Key: "writeConcern", Value: bson.D{{Key: "w", Value: "majority"}}}

// write sends a write that may be repeated: numbered in the session, or harmless by
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
func (s *Store) write(ctx context.Context, sess *session, cmd bson.D, wait time.Duration) (answer, error) {
	cmd = append(cmd, majority)
	var in *mongo.Session
	if sess != nil && !s.standalone.Load() {
		sess.number++
		in = sess.sess
		cmd = append(cmd, bson.E{Key: "txnNumber", Value: sess.number})
	}
	doubt := false // an earlier sending may have been applied
	lost := false
	var earlier bson.Raw
	for tries := 0; ; tries++ {
		limit := min(wait, left(ctx))
		raw, err := s.send(ctx, in, cmd, limit)
		again := err != nil && ctx.Err() == nil && tries < 3
		switch {
		case again && majorityLate(err):
			wait, doubt = time.Minute, true
			if matched(raw) > matched(earlier) {
				earlier = raw
			}
		case again && (nothingSent(err) || in != nil && notPrimary(err)):
		case again && in != nil && (silent(err) || repeatable(err)):
			doubt, sess.mayArrive = true, true
		case again && silent(err):
			doubt, lost = true, true
		case err != nil && (doubt || sess != nil && sess.mayArrive):
			return answer{raw, earlier, lost}, &doubtful{err}
		default:
			return answer{raw, earlier, lost}, err
		}
	}
}

// writeUntilDone is write for an operator, who waits for the outcome: what the server does not
// finish in time goes out again with more time, until ctx ends.
func (s *Store) writeUntilDone(ctx context.Context, sess *session, cmd bson.D) (answer, error) {
	for wait := undoWait; ; wait *= 2 {
		reply, err := s.write(ctx, sess, cmd, wait)
		if !blocked(err) || ctx.Err() != nil || wait > maxWriteWait {
			return reply, err
		}
	}
}

// maxWriteWait bounds the last try of writeUntilDone.
const maxWriteWait = 10 * time.Second

// writeOnce sends a write that has no number and must not be under way twice.
func (s *Store) writeOnce(ctx context.Context, cmd bson.D, wait time.Duration) error {
	cmd = append(cmd, majority)
	for tries := 0; ; tries++ {
		_, err := s.send(ctx, nil, cmd, min(wait, left(ctx)))
		if tries == 3 || ctx.Err() != nil || !nothingSent(err) {
			return err
		}
	}
}

// doubtful is an error that says nothing about an earlier sending of the same
// command.
type doubtful struct{ error }

func (e *doubtful) Unwrap() error { return e.error }

// read sends a command that changes nothing, and that a server which is not too busy
// answers at once.
func (s *Store) read(ctx context.Context, cmd bson.D) (bson.Raw, error) {
	for tries := 0; ; tries++ {
		raw, err := s.send(ctx, nil, append(cmd[:len(cmd):len(cmd)], maxTime(left(ctx))), 0)
		if err == nil || ctx.Err() != nil || tries == 2 || !(nothingSent(err) || repeatable(err) || silent(err)) {
			return raw, err
		}
	}
}

// left is the time until ctx ends, at least a millisecond, at most a minute.
func left(ctx context.Context) time.Duration {
	deadline, ok := ctx.Deadline()
	if !ok {
		return time.Minute
	}
	return min(max(time.Until(deadline), time.Millisecond), time.Minute)
}

func maxTime(d time.Duration) bson.E {
	return bson.E{Key: "maxTimeMS", Value: document.Millis(d)}
}

// scan is documents by a command that may have to read a whole collection.
func (s *Store) scan(ctx context.Context, cmd bson.D) ([]bson.Raw, error) {
	reply, err := s.sendUnlimited(ctx, nil, append(cmd[:len(cmd):len(cmd)], maxTime(left(ctx))))
	return documentsOf(cmd, reply, err)
}

// documents reads by a command whose answer has a cursor: the documents of its only
// batch.
func (s *Store) documents(ctx context.Context, cmd bson.D) ([]bson.Raw, error) {
	reply, err := s.read(ctx, cmd)
	return documentsOf(cmd, reply, err)
}
