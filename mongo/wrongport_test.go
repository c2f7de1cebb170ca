package mongolock

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// TestAWrongPort: nobody cancelled anything, and no context of the caller has ended.
func TestAWrongPort(t *testing.T) {
	t.Parallel()
	for name, timeout := range map[string]time.Duration{"no timeout": 0, "timeoutMS": time.Second} {
		t.Run(name, func(t *testing.T) {
			o := options.Client().ApplyURI("mongodb://127.0.0.1:1/?replicaSet=rs0").SetServerSelectionTimeout(time.Second)
			if timeout > 0 {
				o.SetTimeout(timeout)
			}
			client, err := mongo.Connect(o)
			if err != nil {
				t.Fatal(err)
			}
			atEnd(t, 5*time.Second, client.Disconnect)
			s, err := New(client.Database("app").Collection("locks"), Options{})
			if err != nil {
				t.Fatal(err)
			}
			for what, call := range map[string]func(context.Context) error{
				"Check": s.Check, "Migrate": s.Migrate,
				"Inspect": func(ctx context.Context) error { _, err := s.Inspect(ctx, []string{"k"}); return err },
			} {
				err := call(context.Background())
				if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "127.0.0.1:1") {
					t.Errorf("%s: %v (canceled %v, deadline %v)", what, err, errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded))
				}
			}
		})
	}
}
