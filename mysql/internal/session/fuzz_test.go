package session

import (
	"math"
	"testing"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/mysql/internal/conn"
	"github.com/rowlock/rowlock/mysql/internal/row"
	"github.com/rowlock/rowlock/mysql/internal/sqltest"
)

// FuzzSessionStatements: see sqltest.Fuzz.
func FuzzSessionStatements(f *testing.F) {
	fu := &ForUpdate{lease: &row.Table{Name: "`rowlock_session`"}, Config: Config{Rows: "`rowlock_session_row`"}}
	sqltest.Fuzz(f, func(v sqltest.Values) (s sqltest.Statements) {
		one := driver.Request{Key: v.Key, ID: v.ID, Owner: v.Owner, TTL: v.D, Keep: v.D}
		waiting := one
		waiting.Client, waiting.Wants = 7, true
		id := string(v.ID[:])
		s.AddBoth(fu.write(one, 1, int64(v.D), false), id, v.Owner, v.Key)
		s.AddBoth(fu.write(waiting, 1, int64(v.D), true), id, v.Owner, v.Key)
		s.Add(fu.lockRow(v.Key), v.Key)
		s.Add(fu.waitRow(v.Key), v.Key)
		s.Add(fu.createLease(v.Key), v.Key)
		s.Add(fu.createRow(v.Key), v.Key)
		s.Add(fu.whose(v.Key), v.Key, v.Key)
		s.Add(fu.beat(v.Key), v.Key)
		s.Add(fu.confirm(v.Key), v.Key)
		s.Add(fu.revoke(v.Key, v.ID), v.Key, id)
		s.Add(fu.free([]string{v.Key, v.Other}), v.Key, v.Other)
		s.Add(fu.states([]string{v.Key, v.Other}), v.Key, v.Other)
		s.Add(fu.disown(v.Key, int64(v.D)), v.Key)
		return s
	})
}

// FuzzStates: whatever a lease row has in its columns, nothing of it wraps around.
func FuzzStates(f *testing.F) {
	f.Add(int64(-1), int64(1), int64(math.MinInt64))
	f.Add(int64(math.MaxInt64), int64(math.MaxInt64), int64(math.MaxInt64))
	f.Fuzz(func(t *testing.T, token, left, kept int64) {
		s := state{Row: row.Row{Token: token, Left: conn.Micros(left)}, kept: conn.Micros(kept)}
		for _, s.locked = range []bool{false, true} {
			if i := s.info(); i.Left < 0 || i.Token < 0 {
				t.Errorf("%+v is shown as %+v", s, i)
			}
		}
	})
}
