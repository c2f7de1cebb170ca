package fault

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/rowlock/rowlock/dev/testenv"
	"github.com/rowlock/rowlock/internal/testserver"
)

// TestServerForgetsCommits: a mongod that is started anew with its clock an hour on says of a commit that took effect that there was no such
// transaction. It removes what it knows of sessions whose last write is older than TransactionRecordMinimumLifetimeMinutes (30) and which
// config.system.sessions does not name; sessions are written there every five minutes. One that is to remember for longer does not.
func TestServerForgetsCommits(t *testing.T) {
	testserver.Long(t)
	t.Run("by default", func(t *testing.T) { forgets(t, true) })
	t.Run("as verify starts it", func(t *testing.T) { forgets(t, false, remembers...) })
}

func forgets(t *testing.T, want bool, args ...string) {
	t.Parallel()
	ctx := t.Context()
	// It removes, and writes sessions to config.system.sessions, every 8 s instead of every five minutes: the sessions here are
	// over before they would be written.
	s, err := testenv.StartTroubled(ctx, testenv.Mongo, slices.Concat(args, []string{"--setParameter=logicalSessionRefreshMillis=8000"})...)
	if errors.Is(err, testenv.ErrUnavailable) {
		t.Skip("the server's clock is the machine's")
	}
	must(t, err)
	t.Cleanup(func() { must(t, s.Close()) })
	client, err := mongo.Connect(options.Client().ApplyURI(s.DSN()))
	must(t, err)
	t.Cleanup(func() { _ = client.Disconnect(context.Background()) })
	rows := client.Database("test").Collection("forgotten")
	_, err = rows.InsertOne(ctx, bson.M{})
	must(t, err)
	// Makes the collection of sessions, as mongod does five minutes after its start.
	must(t, client.Database("admin").RunCommand(ctx, bson.M{"refreshLogicalSessionCacheNow": 1}).Err())

	const n = 10
	var sessions []*mongo.Session
	for range n {
		session, err := client.StartSession()
		must(t, err)
		must(t, session.StartTransaction())
		_, err = rows.InsertOne(mongo.NewSessionContext(ctx, session), bson.M{"committed": true})
		must(t, err)
		must(t, session.CommitTransaction(ctx))
		sessions = append(sessions, session)
	}
	anew := func(ahead time.Duration) {
		must(t, s.SetClock(ahead))
		must(t, s.Kill())
		must(t, s.Restart(ctx))
	}
	anew(0)
	must(t, sessions[0].CommitTransaction(ctx)) // asks for its outcome once more
	anew(time.Hour)
	removes(t, client)
	forgotten := false
	for _, session := range sessions[1:] {
		var said mongo.CommandError
		err := session.CommitTransaction(ctx)
		if forgotten = errors.As(err, &said) && said.Name == "NoSuchTransaction"; forgotten {
			break
		}
		must(t, err)
	}
	if forgotten != want {
		t.Errorf("of %d commits one is forgotten: %v, want %v", n, forgotten, want)
	}
	there, err := rows.CountDocuments(ctx, bson.M{"committed": true})
	must(t, err)
	if there != n {
		t.Errorf("%d of %d transactions took effect", there, n)
	}
}

// removes waits until mongod has removed what it knows of sessions that are long over, or has looked for it twice: when it
// looks at its start it may not be the primary yet, on a busy machine.
func removes(t *testing.T, client *mongo.Client) {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); ; time.Sleep(50 * time.Millisecond) {
		var status struct {
			Cache struct {
				Begun   int `bson:"transactionReaperJobCount"`
				Removed int `bson:"lastTransactionReaperJobEntriesCleanedUp"`
			} `bson:"logicalSessionRecordCache"`
		}
		must(t, client.Database("admin").RunCommand(t.Context(), bson.M{"serverStatus": 1}).Decode(&status))
		if status.Cache.Removed > 0 || status.Cache.Begun > 2 {
			return
		}
		if time.Now().After(end) {
			t.Fatal("it has not looked for them")
		}
	}
}
