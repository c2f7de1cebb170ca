package mongolock

import (
	"context"
	"net/url"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/internal/testserver"
)

// TestP27_FrozenPrimary: the primary freezes, and the connections to it stay open. A program that waits for answers of it comes
// back once another was elected, not when the time is over for which its leases are trusted, and keeps what it holds.
func TestP27_FrozenPrimary(t *testing.T) {
	testserver.Long(t)
	t.Parallel()
	const patience = time.Minute // less than the TTL
	srv := testserver.Start(t, testserver.Mongo3)
	u, err := url.Parse(srv.DSN())
	must(t, err)
	primary := -1
	for i, addr := range strings.Split(u.Host, ",") {
		if writable(t.Context(), connect(t, "mongodb://"+addr+"/?directConnection=true")) {
			primary = i
		}
	}
	if primary < 0 {
		t.Fatal("no primary")
	}
	// By itself the driver would give connections to a frozen server up after this time.
	notByTheDriver := options.Client().SetConnectTimeout(10 * time.Minute)
	c := locker(t, open(t, database(t, srv.DSN(), notByTheDriver), Options{}), rowlock.Options{TTL: 2 * time.Minute})
	held, err := c.Acquire(t.Context(), "held throughout")
	must(t, err)

	srv.Pause(primary)
	began := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	lease, err := c.Acquire(ctx, "free")
	if err != nil {
		t.Fatalf("P27: acquire of a free key while the primary before is frozen: %v", err)
	}
	t.Logf("acquired after %v", time.Since(began).Round(time.Millisecond))
	if err := held.Renew(ctx); err != nil {
		t.Errorf("P27: renew while the primary before is frozen: %v", err)
	}
	must(t, lease.Release(ctx))
	if err := held.Err(); err != nil {
		t.Errorf("P26: the lease that is held throughout: %v", err)
	}
	srv.Resume(primary)
}
