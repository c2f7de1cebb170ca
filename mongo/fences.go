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

// Which fences a grant raises, by its mode: that of the key always, to the token of the phase
// or of the exclusive hold, because the guarded transactions of an exclusive holder before must
// end. An exclusive one raises those of the readers and slots before it, a slot that of the
// slot. See package fence for when each of them is made, and why.

// prepareFence makes the fence of a guarded reader before it joins, and the session that it
// names. Both commands are numbered in one session of the Store, so a first one that is still
// on its way when the second was executed is refused.
func (s *Store) prepareFence(ctx context.Context, sess *command.Session, q driver.Request) (prepared bool, err error) {
	if q.Mode != driver.Shared {
		return false, nil
	}
	own, err := s.txSession(q)
	if err != nil || own == nil {
		return false, err
	}
	_, err = s.cmd.Write(ctx, sess, bson.D{
		{Key: "update", Value: s.fences},
		{Key: "updates", Value: bson.A{fence.Prepare(q.Key, q.ID, own)}},
	}, blockWait)
	if err != nil {
		s.txSessions.Drop(driver.Hold{ID: q.ID})
		return false, fmt.Errorf("make its fence: %w", err)
	}
	return true, nil
}

// dropFence takes back prepareFence for a reader that was not granted.
func (s *Store) dropFence(ctx context.Context, q driver.Request) {
	h := driver.Hold{Key: q.Key, ID: q.ID}
	s.txSessions.Drop(h)
	s.fence.Remove(ctx, h)
}

// raiseNamed is raiseFences to the grant of a hold that may be guarded: its fence names the session of the hold.
func (s *Store) raiseNamed(ctx context.Context, q driver.Request, r document.State, g driver.Result, wait time.Duration) error {
	own, err := s.txSession(q)
	if err != nil {
		return err
	}
	return s.raiseFences(ctx, q, r, g, own, wait)
}

// raiseFences raises those of a fenced key to the grant of q. The error is fence.ErrPinned
// where an open transaction keeps one down.
func (s *Store) raiseFences(ctx context.Context, q driver.Request, r document.State, g driver.Result, own *fence.Session, wait time.Duration) error {
	var targets []fence.Target
	switch q.Mode {
	case driver.Exclusive:
		// That of the key comes last: until then the key is shown as pinned.
		if r.OfPhase || r.Fresh {
			targets = append(targets, fence.OfPhase(q.Key, g.Stored))
		}
		targets = append(targets, fence.OfKey(q.Key, g.Stored, own))
	case driver.Shared:
		targets = append(targets, fence.OfKey(q.Key, g.Phase, nil))
	case driver.Slot:
		targets = append(targets, fence.OfKey(q.Key, g.Phase, nil))
		if r.OfPhase {
			targets = append(targets, fence.OfSlot(q.Key, g.Slot, g.Stored, own))
		}
	}
	at, err := s.fence.RaiseAsHolder(ctx, wait, targets...)
	if late := q.Mode == driver.Slot || q.Mode == driver.Shared && q.Stand; err != nil || !q.Guarded || !late {
		return err
	}
	// The fence of the slot may be new, and that of a reader that was passed the key. An exclusive grant that came before
	// it has not raised it; one that comes later does.
	h := holdOfGrant(q, g)
	states, err := s.statesOf(ctx, []driver.Hold{h}, at)
	if err != nil {
		return err
	}
	if r, there := states[q.Key]; document.Fate(r, there, h) != driver.Alive {
		return errEndedMeanwhile
	}
	return nil
}

var errEndedMeanwhile = errors.New("the hold ended while its fence was raised")

func holdOfGrant(q driver.Request, g driver.Result) driver.Hold {
	return driver.Hold{Key: q.Key, ID: q.ID, Mode: q.Mode, Token: g.Token, Stored: g.Stored, Slot: g.Slot, Phase: g.Phase}
}

// pinnedByPhase reports whether an open transaction of a reader or slot, or of the holder
// before them, pins a key, and a try would not end it.
func (s *Store) pinnedByPhase(ctx context.Context, key string) bool {
	open, err := s.fence.PhaseWritten(ctx, key)
	return err == nil && open && !s.fence.EndableInPhase(ctx, key)
}

// fencesToEnd are raised where the key is ended by force, or removed.
func fencesToEnd(r document.State) []fence.Target {
	above := document.Above(r.Token)
	targets := []fence.Target{}
	if r.OfPhase || r.Fresh || r.Phase > 0 {
		targets = append(targets, fence.OfPhase(r.Key, above))
	}
	return append(targets, fence.OfKey(r.Key, above, nil))
}

// guardedReaders are those of the holds that have a fence of their own.
func guardedReaders(holds []driver.Hold) []driver.Hold {
	var readers []driver.Hold
	for _, h := range holds {
		if h.Mode == driver.Shared && h.Guarded {
			readers = append(readers, h)
		}
	}
	return readers
}
