package mysqllock

import (
	"fmt"
	"testing"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/internal/testserver"
)

// TestP3_SuccessorClockBehind: the next primary's clock is three seconds behind, here that of the sessions there. The token of
// VersionColumn rises all the same, because the row has the last one. That of UniqueInsert, whose row the release has removed, is
// the next primary's time: it falls, which is the exception to P3.
func TestP3_SuccessorClockBehind(t *testing.T) {
	t.Parallel()
	l := newClusterLab(t, testserver.MySQLSemiSync)
	strategies := []Strategy{VersionColumn, UniqueInsert}
	take := func(dsn string, strategy Strategy) int64 {
		t.Helper()
		s, err := Open(dsn, Options{Strategy: strategy})
		must(t, err)
		defer func() { must(t, s.Close()) }()
		c := (&lab{t: t}).programOn(t, s, rowlock.Options{}).Client
		lease, err := c.Acquire(within(t, patience), "a")
		must(t, err)
		must(t, lease.Release(within(t, patience)))
		return lease.Token()
	}
	behind := fmt.Sprintf("?timestamp=%d", time.Now().Add(-3*time.Second).Unix()) // before what the first primary grants
	before := map[Strategy]int64{}
	for _, strategy := range strategies {
		before[strategy] = take(l.MemberDSNs()[0], strategy)
	}
	l.Switch(1)
	for _, strategy := range strategies {
		after := take(l.MemberDSNs()[1]+behind, strategy)
		switch rises := after > before[strategy]; {
		case strategy == VersionColumn && !rises:
			t.Errorf("P3: token %d after %d", after, before[strategy])
		case strategy == UniqueInsert && rises:
			t.Errorf("token %d of UniqueInsert after %d: is the exception to P3 none any more?", after, before[strategy])
		}
	}
}
