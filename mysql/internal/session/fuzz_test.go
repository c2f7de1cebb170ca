package session

import (
	"math"
	"testing"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/mysql/internal/conn"
	"github.com/rowlock/rowlock/mysql/internal/row"
	"github.com/rowlock/rowlock/mysql/internal/share"
	"github.com/rowlock/rowlock/mysql/internal/sqltest"
)

// FuzzSessionStatements: see sqltest.Fuzz.
func FuzzSessionStatements(f *testing.F) {
	fu := &ForUpdate{lease: share.New(&row.Table{Name: "`rowlock_session`"}, "`rowlock_share_session`"), Config: Config{Rows: "`rowlock_session_row`"}}
	sqltest.Fuzz(f, func(v sqltest.Values) (s sqltest.Statements) {
		one := driver.Request{Key: v.Key, ID: v.ID, Owner: v.Owner, TTL: v.D, Keep: v.D}
		waiting := one
		waiting.Client, waiting.Wants = 7, true
		id := string(v.ID[:])
		in := conn.Run{Server: v.Other, Started: int64(v.D)}
		s.AddBoth(fu.write(one, 1, in, int64(v.D), false), id, v.Owner, v.Other, v.Key, v.Other)
		s.AddBoth(fu.write(waiting, 1, in, int64(v.D), true), id, v.Owner, v.Other, v.Key, v.Other)
		phase := share.PhaseOf(v.ID)
		share := waiting
		share.Mode, share.Waited = driver.Shared, true
		s.AddBoth(fu.beginPhase(&one, in, int64(v.D)), string(phase[:]), string(phase[:]), v.Key, v.Other)
		s.AddBoth(fu.beginPhase(&share, in, int64(v.D)), string(phase[:]), string(phase[:]), v.Key, v.Other)
		s.AddBoth(fu.takePhase(&one, 1, in, false), v.Key, id, v.Owner, v.Other, v.Key, id)
		s.AddBoth(fu.takePhase(&waiting, 1, in, true), v.Key, id, v.Owner, v.Other, v.Key, id)
		s.AddBoth(fu.endPhase(&one), v.Key, v.Key, id)
		s.Add(fu.lockRow(v.Key), v.Key)
		s.Add(fu.shareRow(v.Key), v.Key)
		s.Add(fu.WaitStatement(v.Key), v.Key)
		s.Add(fu.CreateLease(v.Key), v.Key)
		s.Add(fu.CreateRow(v.Key), v.Key)
		s.Add(fu.whose(v.Key), v.Key, v.Key, v.Key)
		s.Add(fu.beat(v.Key), v.Key)
		s.Add(fu.confirm(v.Key), v.Key)
		s.Add(fu.revoke(v.Key, v.ID), v.Key, id)
		s.Add(fu.ProbeStatement([]string{v.Key, v.Other}), v.Key, v.Other)
		s.Add(fu.states([]string{v.Key, v.Other}), v.Key, v.Other)
		s.Add(fu.disown(v.Key, int64(v.D)), v.Key)
		s.Add(fu.disownPhase(v.Key, int64(v.D)), v.Key, v.Key)
		return s
	})
}

// FuzzStates: whatever a lease row has in its columns, nothing of it wraps around.
func FuzzStates(f *testing.F) {
	f.Add(int64(-1), int64(1), int64(math.MinInt64))
	f.Add(int64(math.MaxInt64), int64(math.MaxInt64), int64(math.MaxInt64))
	f.Fuzz(func(t *testing.T, token, left, kept int64) {
		s := state{Row: row.Row{Token: token, Left: conn.Micros(left), InPhase: left >= row.PhaseMicros}, kept: conn.Micros(kept)}
		for _, s.locked = range []bool{false, true} {
			if i := s.Info(); i.Left < 0 || i.Token < 0 || i.Held && s.InPhase {
				t.Errorf("%+v is shown as %+v", s, i)
			}
			p := rowState{token: token, left: s.Left, kept: s.kept, taken: s.locked, phase: s.InPhase}
			if p.remains() < 0 || p.phase && p.remains() > 0 {
				t.Errorf("%+v remains %v", p, p.remains())
			}
		}
	})
}
