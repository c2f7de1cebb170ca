package mongolock

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/internal/testserver"
)

// TestP12_DisconnectedFirst: a mongo.Client that was disconnected before the Client was
// closed releases nothing any more. Close says so at once.
func TestP12_DisconnectedFirst(t *testing.T) {
	db := database(t, testserver.DSN(t, testserver.Mongo))
	s := open(t, db, Options{})
	c, err := rowlock.New(s, rowlock.Options{TTL: 5 * time.Minute, ReapInterval: -1})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	released, err := c.TryAcquire(ctx, "released")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.TryAcquire(ctx, "held"); err != nil {
		t.Fatal(err)
	}
	if err := db.Client().Disconnect(ctx); err != nil {
		t.Fatal(err)
	}
	if err := released.Release(ctx); err != nil {
		t.Errorf("Release = %v", err)
	}
	err = c.Close(ctx)
	if err == nil || errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("P12: Close = %v, want the refusal, before ctx ends", err)
	}
	for _, want := range []string{`"released"`, `"held"`, "disconnected"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("P12: Close = %v, want %s in it", err, want)
		}
	}
}
