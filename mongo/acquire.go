package mongolock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/mongo/internal/command"
	"github.com/rowlock/rowlock/mongo/internal/document"
	"github.com/rowlock/rowlock/mongo/internal/fence"
)

// Acquire is called by the Client that rowlock.New makes. It implements driver.Store. One key goes by findAndModify, several by the
// batch of acquiremany.go. Pinned means that nothing is held: the attempt, if it had
// the document already, was taken back before the answer. It is said only where
// another transaction was seen (pinned.go); of a server that does not answer in time
// nothing is known but that it applied nothing.
func (s *Store) Acquire(ctx context.Context, reqs []driver.Request) ([]driver.Result, error) {
	if err := s.enter(ctx, "acquire", len(reqs)); err != nil {
		return nil, err
	}
	if len(reqs) == 1 {
		r := s.acquireOne(ctx, reqs[0])
		if r.Status == driver.Unknown {
			return nil, r.Err
		}
		return []driver.Result{r}, nil
	}
	return s.acquireMany(ctx, reqs)
}

// acquireOne takes one key that came alone, and waits longer for it than for one of
// several.
func (s *Store) acquireOne(ctx context.Context, q driver.Request) driver.Result {
	if q.Pinned || q.Apart {
		ctx = command.ForPinned(ctx)
	}
	if q.Pinned && !q.Apart && !q.Stand { // the place of one that stands is refreshed by a try
		results := make([]driver.Result, 1)
		if len(s.stillPinned(ctx, []driver.Request{q}, []int{0}, results)) == 0 {
			return results[0]
		}
	}
	r := s.acquire(ctx, q, blockWait)
	for end := time.Now().Add(lastWait); r.Status == driver.Unknown && command.Blocked(r.Err); {
		if r = s.acquire(ctx, q, lastWait); !q.Stand || time.Now().After(end) {
			return s.placeless(ctx, q, r)
		}
	}
	return r
}

// placeless answers for a request that stands, or would, and was not answered in time.
func (s *Store) placeless(ctx context.Context, q driver.Request, r driver.Result) driver.Result {
	if q.Stand && r.Status == driver.Unknown && command.Blocked(r.Err) {
		if held, is := s.heldByAnother(ctx, q); is {
			return held
		}
	}
	return r
}

// acquire takes one key, in a session of its own, so that it can be undone for good.
func (s *Store) acquire(ctx context.Context, q driver.Request, wait time.Duration) driver.Result {
	what := fmt.Sprintf("acquire %q", q.Key)
	sess, err := s.sessions.Get()
	if err != nil {
		return unknown(&driver.Error{NotApplied: true, Err: s.cmd.Fail(ctx, what, err)})
	}
	prepared, err := s.prepareFence(ctx, sess, q)
	var r document.State
	if err == nil {
		r, err = s.attempt(ctx, sess, q, wait)
	}
	if prepared && (err != nil || !r.Has(q)) {
		defer s.dropFence(ctx, q)
	}
	if err == nil && sess.MayArrive {
		if r.Has(q) || r.Place > 0 {
			_, err = s.overtake(ctx, sess)
		} else { // a sending that was late may have taken the key since
			_, err = s.takeBack(ctx, sess, driver.Hold{Key: q.Key, ID: q.ID, Mode: q.Mode})
		}
	}
	switch {
	case command.Blocked(err):
		s.sessions.Put(sess)
		if r, held := s.heldByAnother(ctx, q); held && (!q.Stand || r.Place > 0) {
			return r
		}
		return unknown(s.cmd.Fail(ctx, what, err))
	case err != nil:
		failed := s.cmd.Fail(ctx, what, err)
		if failed.NotApplied {
			s.sessions.Put(sess)
		} else {
			s.addUnanswered(sess, q.ID)
		}
		return unknown(failed)
	case !r.Has(q):
		s.sessions.Put(sess)
		return r.WithPlace(r.RefusedTo(q))
	}
	if q.Stand && r.Untold(q) { // as it was passed: a look finds it, or did
		s.sessions.Put(sess)
		return r.WithLeft(r.GrantedTo(q), q, 0)
	}
	answer := r.WithLeft(s.finishGrant(ctx, q, r, min(wait, blockWait)), q, 0)
	if answer.Status == driver.Unknown {
		s.addUnanswered(sess, q.ID)
	} else {
		s.sessions.Put(sess)
	}
	return answer
}

// attempt sends the acquire until it is answered: in the form that knows of lines where somebody stood a moment ago, and
// where the answer to the other form says that it must.
func (s *Store) attempt(ctx context.Context, sess *command.Session, q driver.Request, wait time.Duration) (document.State, error) {
	if !s.crowd.has(q.Key) {
		if r, err := s.send(ctx, sess, q, document.TakeOne(s.leases, q, s.cmd.Standalone()), wait); err != nil || !needsLine(q, r) {
			return r, err
		}
		s.crowded(q.Key)
	}
	if s.short(q.Mode, q.Key) {
		if r, err := s.send(ctx, sess, q, document.TakeExclusive(s.leases, q, s.cmd.Standalone()), wait); err != nil || !r.Short(q) {
			return r, err
		}
		s.shares.add(q.Key, crowdTime)
	}
	return s.send(ctx, sess, q, document.TakeInLine(s.leases, q, s.cmd.Standalone()), wait)
}

// send sends the command of an acquire until it is answered with a document that has the
// hold of q or is not free.
func (s *Store) send(ctx context.Context, sess *command.Session, q driver.Request, cmd bson.D, wait time.Duration) (document.State, error) {
	for tries := 0; ; tries++ {
		start := time.Now()
		reply, err := s.cmd.Write(ctx, sess, cmd, s.cmd.One.Single(wait))
		if command.Conflicted(err) && tries < 3 {
			continue
		}
		if err != nil {
			return document.State{}, err
		}
		s.cmd.One.ObserveSingle(time.Since(start))
		doc, _ := reply.Lookup("value").DocumentOK()
		r := document.Parse(doc)
		r.At = command.OperationTime(reply.Raw)
		switch {
		case r.Has(q) || r.Refuses() || r.Phase > 0:
			return r, nil
		case r.Corrupt != "":
			return document.State{}, r.CorruptError("acquire")
		case tries == 3:
			return document.State{}, &driver.Error{NotApplied: !sess.MayArrive, Err: fmt.Errorf("mongo: acquire %q on %s: the document is neither free nor held", q.Key, s)}
		}
	}
}

// heldBy looks for a live hold of another after a try that the server did not finish
// in time.
func (s *Store) heldByAnother(ctx context.Context, q driver.Request) (driver.Result, bool) {
	fields := document.Fields
	if q.Stand {
		fields = document.LineFields([]driver.Entry{document.EntryOf(q)})
	}
	states, err := s.statesWith(ctx, fields, []string{q.Key}, nil)
	if r, ok := states[q.Key]; err == nil && ok && r.Left > 0 && r.Excludes(q) {
		return r.WithPlace(r.RefusedTo(q)), true
	}
	return driver.Result{}, false
}

// finishGrant answers for a key whose document has the hold of q: granted, once a fence
// that the key may have is raised. Where an open guarded transaction of an older
// holder keeps it down, the hold is given back: it could not be used, and the next
// acquire would have to wait for its end as well.
func (s *Store) finishGrant(ctx context.Context, q driver.Request, r document.State, wait time.Duration) driver.Result {
	g := r.GrantedTo(q)
	if g.Status != driver.Granted {
		return g
	}
	if err := s.fence.Find(ctx, &r); err != nil {
		failed := s.cmd.Fail(ctx, fmt.Sprintf("acquire %q: look for its fence", q.Key), err)
		return unknown(&driver.Error{Lasting: failed.Lasting, Err: failed.Err}) // the hold is there
	}
	if !r.Fenced {
		return g
	}
	err := s.raiseNamed(ctx, q, r, g, wait)
	if err == nil {
		return g
	}
	if !errors.Is(err, fence.ErrPinned) {
		failed := s.cmd.Fail(ctx, fmt.Sprintf("acquire %q: raise its fence", q.Key), err)
		// The fence may not have moved, but the hold is there.
		return unknown(&driver.Error{Lasting: failed.Lasting, Silent: failed.Silent, Err: failed.Err})
	}
	if q.Mode == driver.Shared && q.Guarded {
		s.fence.Remove(ctx, driver.Hold{Key: q.Key, ID: q.ID})
	}
	if q.Stand {
		return s.backToLine(ctx, q)
	}
	given := driver.Hold{Key: q.Key, ID: q.ID, Mode: q.Mode, Undo: true}
	s.txSessions.Drop(given)
	back := s.end(ctx, given, blockWait)
	if back.Status == driver.Unknown {
		return back
	}
	return driver.Result{Status: driver.Pinned}
}

func unknown(err *driver.Error) driver.Result {
	return driver.Result{Status: driver.Unknown, Err: err}
}

// txSession is the session of a lease that will be guarded; nil for others.
func (s *Store) txSession(q driver.Request) (*fence.Session, error) {
	if !q.Guarded || s.cmd.Standalone() {
		return nil, nil
	}
	return s.txSessions.Of(q.ID, s.db.Client())
}
