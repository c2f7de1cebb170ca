package mongolock

import (
	"context"
	"sync"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/rowlock/rowlock/internal/testserver"
	"github.com/rowlock/rowlock/mongo/internal/document"
)

// inFlight counts the commands of a client that have no answer yet, and the most that
// there were. Questions to a busy server (internal/command) are not counted.
type inFlight struct {
	mu        sync.Mutex
	now, most int
}

func (f *inFlight) add(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.now += n
	f.most = max(f.most, f.now)
}

func (f *inFlight) monitor() *event.CommandMonitor {
	add := func(n int, command string) {
		if command != "ping" {
			f.add(n)
		}
	}
	return &event.CommandMonitor{
		Started:   func(_ context.Context, e *event.CommandStartedEvent) { add(1, e.CommandName) },
		Succeeded: func(_ context.Context, e *event.CommandSucceededEvent) { add(-1, e.CommandName) },
		Failed:    func(_ context.Context, e *event.CommandFailedEvent) { add(-1, e.CommandName) },
	}
}

// A batch that a foreign transaction stops at its keys goes on in commands for one key
// each. A pool without a bound takes them all: only the store keeps them few.
func TestP11_BatchInParts(t *testing.T) {
	t.Parallel()
	uri := testserver.DSN(t, testserver.Mongo)
	commands := &inFlight{}
	db := database(t, uri, options.Client().SetMaxPoolSize(0).SetMaxConnecting(10*documentedConns).SetMonitor(commands.monitor()))
	s := open(t, db, Options{})
	holds := grantedAll(t, s, requests("k", 10*documentedConns))

	stranger := connect(t, uri)
	sess, err := stranger.StartSession()
	if err != nil {
		t.Fatal(err)
	}
	defer sess.EndSession(context.Background())
	if err := sess.StartTransaction(); err != nil {
		t.Fatal(err)
	}
	_, err = stranger.Database(db.Name()).Collection("locks").UpdateMany(mongo.NewSessionContext(t.Context(), sess), bson.D{}, document.Op("$inc", document.Op("foreign", 1)))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Renew(t.Context(), holds); err != nil {
		t.Fatal(err)
	}
	if err := sess.AbortTransaction(t.Context()); err != nil {
		t.Fatal(err)
	}
	if commands.most > documentedConns {
		t.Errorf("P11: %d commands at once for a batch of %d blocked keys, at most %d are documented", commands.most, len(holds), documentedConns)
	}
	t.Logf("%d commands at once", commands.most)
}
