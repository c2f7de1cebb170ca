package mysqllock

import (
	"testing"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/internal/testserver"
	"github.com/rowlock/rowlock/locktest"
)

// TestP3_SuccessorClockBehind: the next primary's clock is three seconds behind, here that of the sessions there. The token of
// VersionColumn rises all the same, because the row has the last one. That of UniqueInsert, whose row the release has removed, is
// the next primary's time: it falls, which is the exception to P3.
func TestP3_SuccessorClockBehind(t *testing.T) {
	testserver.Long(t)
	t.Parallel()
	l := newClusterLab(t, testserver.MySQLSemiSync)
	strategies := []Strategy{VersionColumn, UniqueInsert}
	take := func(s *Store) int64 {
		t.Helper()
		defer func() { must(t, s.Close()) }()
		c := (&lab{t: t}).programOn(t, s, rowlock.Options{}).Client
		lease, err := c.Acquire(patient(t), "a")
		must(t, err)
		must(t, lease.Release(patient(t)))
		return lease.Token()
	}
	behind := time.Now().Add(-3 * time.Second).Unix() // before what the first primary grants
	before := map[Strategy]int64{}
	for _, strategy := range strategies {
		s, err := Open(l.MemberDSNs()[0], Options{Strategy: strategy})
		must(t, err)
		before[strategy] = take(s)
	}
	l.Switch(1)
	successor, err := poolConfig(l.MemberDSNs()[1])
	must(t, err)
	for _, strategy := range strategies {
		after := take(storeAt(t, successor, Options{Strategy: strategy}, behind))
		switch rises := after > before[strategy]; {
		case strategy == VersionColumn && !rises:
			locktest.Breach(t, "P3", "token %d after %d", after, before[strategy])
		case strategy == UniqueInsert && rises:
			t.Errorf("token %d of UniqueInsert after %d: is the exception to P3 none any more?", after, before[strategy])
		}
	}
}
