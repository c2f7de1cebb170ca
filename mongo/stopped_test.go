package mongolock

import (
	"context"
	"sync/atomic"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/testserver"
	"github.com/rowlock/rowlock/mongo/internal/document"
)

// A command for several readers is stopped by a corrupt document, and the caller's context ends before the others are asked for one by one. What
// that command took is not told to be untouched: nobody would undo it, and the program's next attempt would be told that somebody has the key.
func TestP6_KeysOfACommandThatWasStopped(t *testing.T) {
	t.Parallel()
	var end atomic.Pointer[context.CancelFunc]
	db := database(t, testserver.DSN(t, testserver.Mongo), options.Client().SetMonitor(&event.CommandMonitor{
		Started: func(_ context.Context, e *event.CommandStartedEvent) {
			if cancel := end.Load(); cancel != nil && e.CommandName == "findAndModify" { // the first key by itself
				(*cancel)()
			}
		},
	}))
	s := open(t, db, Options{})
	if _, err := s.Inspect(t.Context(), []string{"warm"}); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Collection(s.leases).InsertOne(t.Context(), bson.M{"_id": document.KeyID("k11"), "name": "k11", "token": "text"}); err != nil {
		t.Fatal(err)
	}
	reqs := requests("k", 12)
	for i := range reqs {
		reqs[i].Mode = driver.Shared
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	end.Store(&cancel)
	results, err := s.Acquire(ctx, reqs)
	must(t, err)
	if ctx.Err() == nil {
		t.Fatalf("no key was asked for by itself: %v", results)
	}
	taken := 0
	for i, q := range reqs {
		states, err := s.statesOf(t.Context(), []driver.Hold{{Key: q.Key, ID: q.ID, Mode: q.Mode}}, nil)
		must(t, err)
		if r, there := states[q.Key]; !there || !r.Has(q) {
			continue
		}
		taken++
		if r := results[i]; r.Status == driver.Unknown && driver.IsNotApplied(r.Err) {
			t.Errorf("%q is held, and was told not to be: %v", q.Key, r.Err)
		}
	}
	if taken == 0 {
		t.Error("nothing was taken")
	}
}
