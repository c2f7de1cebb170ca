package mongolock

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/testserver"
	"github.com/rowlock/rowlock/mongo/internal/document"
)

// TestP26_BlockedReleases: releases of keys whose documents a foreign transaction has written are under way or wait at any time, in
// hundreds. The leases of other keys live, where the server writes a document within a sixth of their TTL.
func TestP26_BlockedReleases(t *testing.T) {
	testserver.Long(t)
	t.Parallel()
	s := shared(t)
	const ttl, stuck, kept = 3 * time.Second, 300, 20
	holds := grantedAll(t, s, requests("stuck", stuck))
	l := locker(t, s, rowlock.Options{TTL: ttl})
	var leases []*rowlock.Lease
	for i := range kept {
		lease, err := l.Acquire(t.Context(), fmt.Sprint("kept", i))
		must(t, err)
		leases = append(leases, lease)
	}
	foreign, ctx := begin(t, s)
	defer foreign.EndSession(context.Background())
	for _, h := range holds {
		_, err := s.db.Collection(s.leases).UpdateByID(ctx, document.KeyID(h.Key), bson.D{{Key: "$inc", Value: bson.D{{Key: "foreign", Value: 1}}}})
		must(t, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for _, h := range holds {
		all.Go(func() {
			for ctx.Err() == nil {
				try, cancel := context.WithTimeout(context.Background(), ttl)
				_, _ = s.Release(try, []driver.Hold{h})
				cancel()
			}
		})
	}
	var slowest atomic.Int64
	all.Go(func() {
		pulses := s.db.Collection("pulses")
		for ctx.Err() == nil {
			start := time.Now()
			_, err := pulses.InsertOne(context.WithoutCancel(ctx), bson.D{})
			if err != nil && !mongo.IsTimeout(err) {
				t.Error(err)
			}
			slowest.Store(max(slowest.Load(), int64(time.Since(start))))
		}
	})
	renewals, lost := l.Stats().Renewals, 0
	for l.Stats().Renewals < renewals+10*kept && lost == 0 {
		for _, lease := range leases {
			if err := lease.Err(); err != nil {
				lost++
				t.Log(err)
			}
		}
		time.Sleep(10 * time.Millisecond)
	}
	cancel()
	all.Wait()
	switch slowest := time.Duration(slowest.Load()); {
	case lost > 0 && slowest < ttl/6:
		t.Errorf("P26: %d of %d leases were lost beside releases that wait for a foreign transaction, while each write took at most %v", lost, kept, slowest)
	case lost > 0:
		t.Logf("not judged: %d of %d leases were lost, and a write took %v", lost, kept, slowest)
	}
	for _, lease := range leases {
		_ = lease.Release(context.Background())
	}
}
