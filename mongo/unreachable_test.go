package mongolock

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/internal/testserver"
)

// Who waits for a server that cannot be found is told why by the error of his wait.
func TestUnreachable(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, uri, says string
		opts            *options.ClientOptions
	}{
		{"wrong host", "mongodb://127.0.0.1:1/?directConnection=true", "127.0.0.1:1", options.Client()},
		{"wrong replica set", testserver.DSN(t, testserver.Mongo), "replicaSet", options.Client().SetReplicaSet("no-such-set").SetDirect(false)},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			client := connect(t, c.uri, c.opts.SetServerSelectionTimeout(time.Minute))
			s, err := New(client.Database("rowlock").Collection("locks"), Options{})
			must(t, err)
			l, err := rowlock.New(s, rowlock.Options{})
			must(t, err)
			for _, step := range []struct {
				name string
				do   func(ctx context.Context) error
			}{
				{"Acquire", func(ctx context.Context) error { _, err := l.Acquire(ctx, "k"); return err }},
				{"TryAcquire", func(ctx context.Context) error { _, err := l.TryAcquire(ctx, "k"); return err }},
				{"Inspect", func(ctx context.Context) error { _, err := l.Inspect(ctx, "k"); return err }},
			} {
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				err := step.do(ctx)
				cancel()
				if err == nil || !strings.Contains(err.Error(), "server selection error") || !strings.Contains(err.Error(), c.says) {
					t.Errorf("%s: %v; want the driver's server selection error", step.name, err)
				}
				if step.name == "Acquire" && !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("%s: %v, want one that matches context.DeadlineExceeded", step.name, err)
				}
			}
		})
	}
}
