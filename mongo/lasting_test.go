package mongolock

import (
	"context"
	"errors"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/testserver"
)

// TestWhatLasts: what refuses a document is told at once, also to a caller that waits, and in words that say what to do.
// The server's answer proves that nothing was done.
func TestWhatLasts(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*Store) error
		words  string
		modes  []string
	}{
		"a validator": {func(s *Store) error {
			return s.db.RunCommand(t.Context(), bson.D{{Key: "collMod", Value: s.leases}, {Key: "validator", Value: bson.D{{Key: "own", Value: 1}}}}).Err()
		}, "without a validator", []string{"exclusive", "shared", "slots"}},
		"a unique index": {func(s *Store) error {
			_, err := s.db.Collection(s.leases).Indexes().CreateOne(t.Context(), mongo.IndexModel{
				Keys: bson.D{{Key: "owner", Value: 1}}, Options: options.Index().SetUnique(true).SetPartialFilterExpression(bson.D{{Key: "owner", Value: bson.D{{Key: "$exists", Value: true}}}}),
			})
			return err
		}, "unique index that is not rowlock's", []string{"exclusive"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := shared(t)
			granted(t, s, request("first"))
			if err := c.change(s); err != nil {
				t.Fatal(err)
			}
			l := locker(t, s, rowlock.Options{Owner: request("").Owner})
			options := map[string][]rowlock.Option{"exclusive": nil, "shared": {rowlock.Shared()}, "slots": {rowlock.Slots(2)}}
			for _, mode := range c.modes {
				for what, acquire := range map[string]func(context.Context, string, ...rowlock.Option) (*rowlock.Lease, error){"Acquire": l.Acquire, "TryAcquire": l.TryAcquire} {
					ctx, cancel := context.WithTimeout(t.Context(), testserver.Patience(t))
					_, err := acquire(ctx, mode+what, options[mode]...)
					cancel()
					if err == nil || errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, rowlock.ErrSchema) || !strings.Contains(err.Error(), c.words) || !driver.IsNotApplied(err) {
						t.Errorf("%s, %s: %v, want ErrSchema at once with %q", what, mode, err, c.words)
					}
				}
			}
		})
	}
}

// TestAtlasRefusals: 8000 is a wrong password in the handshake only; elsewhere it is a quota or a rate, and passes. So
// an acquire is tried again, and a release is not called refused.
func TestAtlasRefusals(t *testing.T) {
	t.Parallel()
	srv := testserver.Start(t, testserver.Mongo) // a fail point is the server's
	s := open(t, database(t, srv.DSN(), options.Client().SetAppName("atlas")), Options{})
	refuse := func(command string) { failCommand(t, s, "atlas", command, bson.E{Key: "errorCode", Value: 8000}) }
	l := locker(t, s, rowlock.Options{})
	granted(t, s, request("first"))
	refuse("findAndModify")
	ctx, cancel := context.WithTimeout(t.Context(), testserver.Patience(t))
	defer cancel()
	lease, err := l.Acquire(ctx, "k")
	if err != nil {
		t.Fatalf("an acquire that met a quota for a moment: %v", err)
	}
	refuse("update")
	if err := lease.Release(ctx); err != nil {
		t.Fatal(err)
	}
	if again, err := l.Acquire(ctx, "k"); err != nil {
		t.Errorf("after the release: %v", err)
	} else if err := again.Release(ctx); err != nil {
		t.Error(err)
	}
	refused := mongo.CommandError{Code: 8000, Name: "AtlasError", Message: "bad auth : authentication failed"}
	if e := s.cmd.Fail(t.Context(), "acquire", refused); e.Lasting {
		t.Errorf("outside of a handshake: %v", e)
	}
	refused.Message = "connection() error occurred during connection handshake: auth error: sasl conversation error: (AtlasError) bad auth : authentication failed"
	if e := s.cmd.Fail(t.Context(), "acquire", refused); !e.Lasting || !strings.Contains(e.Error(), "authSource") {
		t.Errorf("in the handshake: %v", e)
	}
}
