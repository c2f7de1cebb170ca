package mongolock

import (
	"context"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/mongo/internal/command"
	"github.com/rowlock/rowlock/mongo/internal/document"
)

// Look is called by the Client that rowlock.New makes. It implements driver.Liner: one find for all entries, and one more
// where a key is asked about in another mode too. It reads what the majority has, because a holder trusts what a look says,
// and from the primary, whose clock is the one by which the key is passed on. It writes nothing but the fence of a key with
// guards that was passed to an entry.
func (s *Store) Look(ctx context.Context, entries []driver.Entry) ([]driver.View, error) {
	if err := s.enter(ctx, "look", len(entries)); err != nil {
		return nil, err
	}
	views := make([]driver.View, len(entries))
	todo := make([]int, len(entries))
	for i := range entries {
		todo[i] = i
	}
	for len(todo) > 0 {
		var now, later []int
		seen := make(map[string]bool)
		for _, i := range todo {
			if key := entries[i].Key; seen[key] {
				later = append(later, i)
			} else {
				seen[key] = true
				now = append(now, i)
			}
		}
		if err := s.look(ctx, entries, now, views); err != nil {
			return nil, s.cmd.Fail(ctx, "look", err)
		}
		todo = later
	}
	return views, nil
}

// raiseForLook raises the fence of a key that was passed to e, so that its holder may trust that. Where it cannot, the look
// says that the key is free: the request comes again, and waits for the transaction that is in the way.
func (s *Store) raiseForLook(ctx context.Context, e driver.Entry, r *document.State) {
	ctx, cancel := context.WithTimeout(ctx, command.MaxWait)
	defer cancel()
	if s.fence.Find(ctx, r) != nil {
		return
	}
	if r.Fenced {
		q := driver.Request{Key: e.Key, ID: e.ID, Mode: e.Mode, Slots: e.Slots, Slot: -1}
		g := r.GrantedTo(q)
		if g.Status != driver.Granted || s.raiseFences(ctx, q, *r, g, nil, fenceWait) != nil {
			return
		}
	}
	r.Raised()
}

// look looks for entries of different keys.
func (s *Store) look(ctx context.Context, entries []driver.Entry, some []int, views []driver.View) error {
	asked := pick(entries, some)
	keys := make([]string, len(asked))
	for n, e := range asked {
		keys[n] = e.Key
	}
	cmd := bson.D{
		{Key: "find", Value: s.leases},
		{Key: "filter", Value: document.ByKeys(keys)},
		{Key: "projection", Value: document.LineFields(asked)},
		{Key: "batchSize", Value: int32(len(keys))},
		{Key: "singleBatch", Value: true},
	}
	if !s.cmd.Standalone() {
		cmd = append(cmd, bson.E{Key: "readConcern", Value: document.Op("level", "majority")})
	}
	reply, err := s.cmd.Read(ctx, cmd)
	docs, err := command.DocumentsOf(cmd, reply, err)
	if err != nil {
		return err
	}
	states := make(map[string]document.State, len(docs))
	for _, doc := range docs {
		r := document.Parse(doc)
		r.At = command.OperationTime(reply)
		states[r.Key] = r
	}
	for n, i := range some {
		r, there := states[asked[n].Key]
		if !there {
			views[i] = driver.View{Free: true}
			continue
		}
		if r.PassedToFence(asked[n]) {
			s.raiseForLook(ctx, asked[n], &r)
		}
		views[i] = r.View(asked[n])
		if views[i].Standing > 0 || views[i].Mine {
			s.crowded(asked[n].Key)
		}
	}
	return nil
}
