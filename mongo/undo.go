package mongolock

import (
	"context"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/mongo/internal/command"
	"github.com/rowlock/rowlock/mongo/internal/document"
)

// undo takes back an attempt that was not answered, in the attempt's own session
// and with the next number. Once the majority has it, the server refuses the
// attempt whenever it may still arrive, so the answer is final, whether it found
// the hold or not. Until then every repeat has a number of its own.
func (s *Store) undo(ctx context.Context, h driver.Hold) driver.Result {
	what := fmt.Sprintf("undo %q", h.Key)
	k := s.sessions.FindUnanswered(h.ID)
	if k != nil {
		if err := k.Lock(ctx); err != nil {
			return unknown(&driver.Error{Err: fmt.Errorf("mongo: %s on %s: %w", what, s, err)})
		}
		defer k.Unlock()
	}
	if k == nil || s.sessions.FindUnanswered(h.ID) != k || s.cmd.Standalone() { // undone meanwhile
		return s.end(ctx, h, blockWait)
	}
	found, err := s.takeBack(ctx, k.Session, h)
	if err != nil {
		return unknown(s.cmd.Fail(ctx, what, err))
	}
	s.sessions.Undone(h.ID)
	final := !s.unsure.has(h.ID)
	if found {
		return driver.Result{Status: driver.Released, Final: final}
	}
	return driver.Result{Status: driver.Removed, Final: final}
}

// takeBack overtakes what went out in sess, and ends the hold that it may have left, or takes its request out of the line.
func (s *Store) takeBack(ctx context.Context, sess *command.Session, h driver.Hold) (found bool, err error) {
	reply, err := s.overtake(ctx, sess, document.End(h))
	if err != nil || command.Matched(reply.Raw) > 1 {
		return true, err
	}
	states, err := s.states(ctx, []string{h.Key}, nil)
	if err != nil || !states[h.Key].Lined {
		return false, err
	}
	h.Undo, h.Next = true, nil
	reply, err = s.cmd.Write(ctx, nil, document.EndInLine(s.leases, h, s.cmd.Standalone()), undoWait)
	return reply.Matched() > 0, err
}

// addUnanswered remembers the session of attempts that were not answered. Of a request that stands several may be so, each in
// a session of its own; an undo overtakes the last one only.
func (s *Store) addUnanswered(sess *command.Session, ids ...driver.HoldID) {
	for _, id := range ids {
		if s.sessions.FindUnanswered(id) != nil {
			s.unsure.add(id, unsureTime)
		}
	}
	s.sessions.AddUnanswered(sess, ids...)
}

// overtake writes with the next number of sess, and ends what attempts that went out in sess
// may have left. Once the majority has it, nothing that was sent in sess before can
// take effect any more.
func (s *Store) overtake(ctx context.Context, sess *command.Session, ends ...bson.D) (command.Answer, error) {
	updates := bson.A{bson.D{{Key: "q", Value: document.Op("_id", document.Barrier)}, {Key: "u", Value: document.Op("$inc", document.Op("n", int64(1)))}, {Key: "upsert", Value: true}}}
	for _, end := range ends {
		updates = append(updates, end)
	}
	cmd := bson.D{{Key: "update", Value: s.leases}, {Key: "updates", Value: updates}, {Key: "ordered", Value: true}}
	for tries := 0; ; tries++ {
		reply, err := s.cmd.Write(ctx, sess, cmd, undoWait)
		if err == nil {
			sess.MayArrive = false
			return reply, nil
		}
		if tries == 3 || !command.ConflictedLast(err) {
			return reply, err
		}
	}
}
