package mongolock

import (
	"context"
	"errors"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/mongo/internal/command"
	"github.com/rowlock/rowlock/mongo/internal/document"
	"github.com/rowlock/rowlock/mongo/internal/fence"
)

// confirm renews a hold that was passed the key, and writes what its request asked for. A fence that the key has, or gets
// by that, is raised before the answer. The hold stands where an open transaction keeps the fence down: the answer is
// Pinned, and the holder asks again.
func (s *Store) confirm(ctx context.Context, h driver.Hold) driver.Result {
	what := fmt.Sprintf("confirm %q", h.Key)
	update := document.Confirming(h)
	q := driver.Request{Key: h.Key, ID: h.ID, Mode: h.Mode, Owner: h.Owner, TTL: h.TTL, Keep: h.Keep, Guarded: h.Guarded, Stand: true, Slots: driver.MaxSlots, Slot: -1}
	var reply command.Answer
	for tries := 0; ; tries++ {
		var err error
		reply, err = s.cmd.Write(ctx, nil, bson.D{
			{Key: "findAndModify", Value: s.leases},
			{Key: "query", Value: update[0].Value},
			{Key: "update", Value: update[1].Value},
			{Key: "new", Value: true},
			{Key: "fields", Value: document.LineFields([]driver.Entry{document.EntryOf(q)})},
		}, blockWait)
		if err == nil {
			break
		}
		if tries == 3 || !command.Conflicted(err) {
			return unknown(s.cmd.Fail(ctx, what, err))
		}
	}
	if reply.Matched() == 0 {
		fates, _, err := s.fates(ctx, reply.Raw, []driver.Hold{h}, document.Loss)
		if err != nil {
			return unknown(s.cmd.Fail(ctx, what, err))
		}
		if fates[0] == driver.Alive {
			return unknown(&driver.Error{Err: fmt.Errorf("mongo: %s: it came after the renewal", what)})
		}
		return driver.Result{Status: fates[0]}
	}
	doc, _ := reply.Lookup("value").DocumentOK()
	r := document.Parse(doc)
	r.At = command.OperationTime(reply.Raw)
	return s.raiseConfirmed(ctx, what, q, r)
}

// raiseConfirmed raises the fences of a key whose new holder has confirmed.
func (s *Store) raiseConfirmed(ctx context.Context, what string, q driver.Request, r document.State) driver.Result {
	fail := func(err error) driver.Result {
		failed := s.cmd.Fail(ctx, what, err)
		return unknown(&driver.Error{Lasting: failed.Lasting, Silent: failed.Silent, Err: failed.Err})
	}
	g := r.GrantedTo(q)
	if g.Status != driver.Granted {
		return g
	}
	if err := s.fence.Find(ctx, &r); err != nil {
		return fail(err)
	}
	if !r.Fenced {
		return driver.Result{Status: driver.Alive}
	}
	sess, err := s.sessions.Get()
	if err != nil {
		return fail(err)
	}
	if _, err = s.prepareFence(ctx, sess, q); err == nil {
		err = s.raiseNamed(ctx, q, r, g, blockWait)
	}
	switch {
	case err == nil:
		s.sessions.Put(sess)
		return driver.Result{Status: driver.Alive}
	case errors.Is(err, fence.ErrPinned):
		s.sessions.Put(sess)
		return driver.Result{Status: driver.Pinned, Left: r.LeftOf(driver.Hold{ID: q.ID, Mode: q.Mode})}
	}
	return fail(err)
}
