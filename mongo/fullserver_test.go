package mongolock

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/internal/testserver"
)

// TestP26_FullServer: renewals and releases go on with the connections that are there. The driver's pool is one for all kinds of work.
func TestP26_FullServer(t *testing.T) {
	testserver.Long(t)
	t.Parallel()
	uri := testserver.Start(t, testserver.Mongo, "--maxConns", "40").DSN()
	s, err := New(connect(t, uri).Database("full").Collection("locks"), Options{})
	must(t, err)
	must(t, s.Migrate(patient(t)))
	c := locker(t, s, rowlock.Options{TTL: time.Hour, ReleaseWait: testserver.Patience(t)})
	const number = 20
	var leases []*rowlock.Lease
	for i := range number {
		lease, err := c.Acquire(patient(t), fmt.Sprint("k", i))
		must(t, err)
		leases = append(leases, lease)
	}
	full := false
	for i := 0; i < 40 && !full; i++ {
		other := connect(t, uri, options.Client().SetMaxPoolSize(1).SetServerSelectionTimeout(time.Second))
		full = other.Ping(patient(t), nil) != nil
	}
	if !full {
		t.Fatal("the server took all connections")
	}
	var all sync.WaitGroup
	for _, lease := range leases {
		all.Go(func() {
			if err := lease.Renew(patient(t)); err != nil {
				t.Errorf("P26: a renewal on a full server: %v", err)
			}
			if err := lease.Release(patient(t)); err != nil {
				t.Errorf("P26: a release on a full server: %v", err)
			}
		})
	}
	all.Wait()
	if late := c.Stats().LateReleases; late > 0 {
		t.Errorf("%d of %d releases were not answered on a full server", late, number)
	}
}
