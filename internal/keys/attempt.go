package keys

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/grant"
	"github.com/rowlock/rowlock/internal/key"
	"github.com/rowlock/rowlock/internal/logs"
	"github.com/rowlock/rowlock/internal/undo"
)

// newRequest is one attempt for a. No caller's context reaches the store: a
// session or transaction in it would pull the statement in, and its end would
// make the outcome unknown.
func (t *Table) newRequest(a *Ask, last pinning, waits bool) driver.Request {
	r := driver.Request{
		Key: a.Key, Mode: a.Mode, Owner: a.Owner, TTL: a.TTL, Keep: a.Keep(),
		Guarded: a.Guarded, Pinned: last == isPinned, Apart: last == maybePinned,
	}
	if t.queuer != nil {
		r.Client, r.Wants = t.number, waits
	}
	if a.Mode == driver.Slot {
		r.Slots, r.Slot = a.Slots, t.lastSlot(a.Key)
	}
	rand.Read(r.ID[:]) // never fails
	return r
}

// outcome reads the answer to an attempt: a grant, a refusal, or another error
// after which the attempt was undone if it may have been applied. ctx is the caller's,
// for what is logged. stood: the attempt has a place in the line, where a look finds out what became of it.
func (t *Table) outcome(ctx context.Context, req *driver.Request, a *Ask, r driver.Result, sent, got time.Duration, stood bool) (grant.Used, error) {
	switch r.Status {
	case driver.Granted:
		if req.Stand && r.Left > 0 { // it had the key before: since when a look tells
			return none, &Refusal{place: 1, mine: true}
		}
		if err := badGrant(req, r); err != nil {
			r.Err = &driver.Error{Lasting: true, Err: fmt.Errorf("the store granted %q %w, which is out of range", req.Key, err)}
			break
		}
		if got < sent+a.AnswerWithin() {
			new := t.NewUser(nil, sent, r.Token)
			*new.Grant = grant.New(req.Key, req.ID, a.Terms, sent, r)
			return t.hold(new, key.Event{Hint: r.Wanted, Known: r.Wanted.Client != 0, Standing: r.Standing})
		}
		r.Err = fmt.Errorf("the grant came after %v, too late for a TTL of %v", got-sent, a.TTL)
	case driver.Held:
		return none, &Refusal{Owner: r.Owner, Left: r.Left, Shared: r.Shared, place: r.Place, Standing: r.Standing}
	case driver.Pinned:
		return none, &Refusal{Owner: r.Owner, Pinned: true, apart: r.Apart && !req.Apart, Shared: r.Shared, place: r.Place, Standing: r.Standing}
	}
	if !driver.IsNotApplied(r.Err) && !stood {
		t.Report.Unknown.Fail(ctx, 1, logs.Attrs(req.Key, req.Mode, "hold", req.ID, "err", r.Err)...)
		if req.Mode == driver.Slot && r.Status != driver.Granted {
			r.Slot = -1 // not known
		}
		t.Unresolved.Add(undo.Task{
			Hold: driver.Hold{
				Key: req.Key, ID: req.ID, Token: r.Token, Stored: r.Stored, TTL: a.TTL, Keep: a.Keep(),
				Guarded: a.Guarded, Mode: req.Mode, Slot: r.Slot, Phase: r.Phase, Undo: true,
			},
			Ctx:          ctx,
			Acknowledged: r.Status == driver.Granted,
			Sent:         got,
		})
	}
	if r.Err == nil {
		r.Err = errNoAnswer
	}
	return none, r.Err
}

// badGrant is what is wrong with the numbers of a grant.
func badGrant(req *driver.Request, r driver.Result) error {
	switch {
	case r.Token <= 0 || r.Token > driver.MaxToken:
		return fmt.Errorf("with token %d", r.Token)
	case req.Mode == driver.Exclusive:
	case r.Phase <= 0 || r.Phase > driver.MaxToken:
		return fmt.Errorf("in a phase with token %d", r.Phase)
	case req.Mode == driver.Slot && (r.Slot < 0 || r.Slot >= req.Slots):
		return fmt.Errorf("with slot %d of %d", r.Slot, req.Slots)
	}
	return nil
}

// errNoAnswer stands for an unknown outcome without a cause.
var errNoAnswer = errors.New("the database gave no usable answer")

// none is no grant.
var none grant.Used

// hold takes a grant on. If the client was closed meanwhile the grant is given back.
func (t *Table) hold(new grant.Used, e key.Event) (grant.Used, error) {
	t.Renewer.Add(new.Grant, new.User) // before closed is read: Close ends what it finds here
	t.mu.Lock()
	closed := t.closed
	t.grantBegan(new.Grant, e)
	t.mu.Unlock()
	if closed {
		new.Grant.EndUnwanted(new.User)
		return none, driver.ErrClosed
	}
	return new, nil
}
