package mongolock

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/testserver"
)

func TestLifeOfALease(t *testing.T) {
	t.Parallel()
	s := shared(t)
	q := request("job")
	h := granted(t, s, q)
	if h.Token < driver.TokenRange || h.Stored != h.Token {
		t.Errorf("token %d, stored %d", h.Token, h.Stored)
	}
	i := inspect(t, s, "job")
	if !i.Held || i.Kept || i.Pinned || i.Owner != "test" || i.Token != h.Token || i.Left <= 50*time.Second || i.Left > time.Minute {
		t.Errorf("inspect: %+v", i)
	}
	if d := time.Since(i.Since); d < -time.Second || d > time.Minute {
		t.Errorf("since %v ago", d)
	}
	if r := acquire(t, s, request("job")); r.Status != driver.Held || r.Owner != "test" || r.Left <= 50*time.Second {
		t.Errorf("second acquire: %+v, want held by test for a minute", r)
	}
	if st := renew(t, s, h); st != driver.Alive {
		t.Errorf("renew: %v, want alive", st)
	}
	if r := release(t, s, h); r.Status != driver.Released {
		t.Errorf("release: %v, want released", r.Status)
	}
	if i := inspect(t, s, "job"); i.Held || i.Left != 0 || i.Token != h.Token || i.Owner != "test" {
		t.Errorf("inspect after release: %+v", i)
	}
	if st := renew(t, s, h); st != driver.Released {
		t.Errorf("renew after release: %v, want released", st)
	}
	if r := release(t, s, h); r.Status != driver.Released {
		t.Errorf("release again: %v, want released", r.Status)
	}
	h2 := granted(t, s, request("job"))
	if h2.Token < h.Token+driver.TokenRange {
		t.Errorf("next token %d after %d", h2.Token, h.Token)
	}
	if st := renew(t, s, h); st != driver.Taken {
		t.Errorf("renew of the old hold: %v, want taken", st)
	}
	if r := release(t, s, h); r.Status != driver.Taken {
		t.Errorf("release of the old hold: %v, want taken", r.Status)
	}
	if i := inspect(t, s, "job"); !i.Held || i.Token != h2.Token {
		t.Errorf("P5: the stale holder changed the key: %+v", i)
	}
}

// TestP12_DisconnectedFirst: a mongo.Client that was disconnected before the Client was
// closed releases nothing any more. Close says so at once.
func TestP12_DisconnectedFirst(t *testing.T) {
	db := database(t, testserver.DSN(t, testserver.Mongo))
	s := open(t, db, Options{})
	c, err := rowlock.New(s, rowlock.Options{TTL: 5 * time.Minute, ReapInterval: -1})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), testserver.Patience(t))
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
