package mysqllock

import (
	"database/sql"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/testserver"
	"github.com/rowlock/rowlock/mysql/internal/row"
)

// TestCorruptShares: rows of readers, slots and phases that somebody wrote by hand. Whatever
// is in them, every step ends, no token is out of range or not above the row's, an error says
// what to do, and the other key of a statement does not suffer.
func TestCorruptShares(t *testing.T) {
	testserver.Long(t)
	t.Parallel()
	everywhere(t, func(t *testing.T, l *lab) {
		c := client{t: t, Store: l.store()}
		person, err := l.db.Conn(t.Context())
		must(t, err)
		defer func() { _ = person.Close() }()
		_, err = person.ExecContext(t.Context(), "SET SESSION sql_mode=''") // takes dates that are none
		must(t, err)
		n := 0
		for column, values := range corruptions {
			tables := []string{l.shares(), l.table()}
			switch column {
			case "conn_id", "kept_until", "wanted":
				continue
			case "token":
				for _, v := range values {
					corruptShare(t, l, c, person, tables[:1], "phase", v, &n)
				}
			}
			for _, v := range values {
				corruptShare(t, l, c, person, tables, column, v, &n)
			}
		}
		ids, times := []string{"phase"}, []string(nil) // of the key's row
		if l.strategy == SelectForUpdate {
			ids, times = append(ids, "gate"), []string{"gate_until", "gate_after"}
		}
		for _, column := range ids {
			for _, v := range []string{"NULL", row.NoHold, "x'ffffffffffffffffffffffffffffffff'", "hold"} {
				corruptShare(t, l, c, person, []string{l.table()}, column, v, &n)
			}
		}
		for _, v := range []string{"1000", "9223372036854775807", "9223372036854775808", "18446744073709551615"} {
			corruptShare(t, l, c, person, []string{l.shares()}, "slot", v+"-IF(slot<9223372036854775808,1,0)", &n)
		}
		for _, column := range times {
			for _, v := range corruptions["expires_at"] {
				corruptShare(t, l, c, person, []string{l.table()}, column, v, &n)
			}
		}
		t.Logf("%d rows", n)
	})
}

func corruptShare(t *testing.T, l *lab, c client, person *sql.Conn, tables []string, column, value string, n *int) {
	for _, table := range tables {
		*n++
		key := fmt.Sprintf("k%d", *n)
		what := fmt.Sprintf("%s: %s=%s", table, column, value)
		r, s := c.grant(reader(key, time.Minute)), c.grant(slotOf(key, 2, time.Minute))
		besideR, besideS := c.grant(reader(key+" with it", time.Minute)), c.grant(slotOf(key+" with it", 2, time.Minute))
		if _, err := person.ExecContext(t.Context(), fmt.Sprintf("UPDATE %s SET %s=%s WHERE name='%s'", table, column, value, key)); err != nil {
			t.Logf("%s: %v", what, err)
			continue
		}
		ctx := patient(t)
		check := func(step string, results []driver.Result, err error) {
			t.Helper()
			if err != nil {
				t.Errorf("%s: %s: %v", what, step, err)
				return
			}
			for _, r := range results {
				if r.Token < 0 || r.Token > driver.MaxToken || r.Phase < 0 || r.Phase > driver.MaxToken || r.Left < 0 {
					t.Errorf("%s: %s: %+v", what, step, r)
				}
				if r.Err != nil && !strings.Contains(r.Err.Error(), "by hand") && !strings.Contains(r.Err.Error(), "MaxHold") {
					t.Errorf("%s: %s: the error does not say what to do: %v", what, step, r.Err)
				}
			}
		}
		infos, err := c.Inspect(ctx, []string{key})
		if err != nil || infos[0].Token < 0 || infos[0].Left < 0 || infos[0].Readers < 0 || infos[0].Slots < 0 {
			t.Errorf("%s: inspect: %+v, %v", what, infos, err)
		}
		if _, err := c.List(ctx, key, "", 3); err != nil {
			t.Errorf("%s: list: %v", what, err)
		}
		results, err := c.Renew(ctx, []driver.Hold{r, besideR, s, besideS})
		check("renew", results, err)
		if err == nil && (results[1].Status != driver.Alive || results[3].Status != driver.Alive) {
			t.Errorf("%s: renew of the key beside: %+v", what, results)
		}
		for _, q := range []driver.Request{reader(key, time.Minute), slotOf(key, 3, time.Minute), request(key, time.Minute)} {
			beside := q
			beside.Key, beside.ID = key+" beside", newID()
			results, err := c.Acquire(ctx, []driver.Request{q, beside})
			for err == nil && results[1].Status == driver.Pinned && results[1].Apart { // the server is slow
				beside.ID, beside.Apart, beside.Pinned = newID(), true, true
				var alone []driver.Result
				alone, err = c.Acquire(ctx, []driver.Request{beside})
				if err == nil {
					results[1] = alone[0]
				}
			}
			check(fmt.Sprintf("acquire of mode %v", q.Mode), results, err)
			if err == nil && results[1].Apart { // the server took its time over the first one
				var alone []driver.Result
				if alone, err = c.Acquire(ctx, []driver.Request{beside}); err == nil {
					results[1] = alone[0]
				}
			}
			if err == nil && results[1].Status != driver.Granted {
				t.Errorf("%s: acquire of mode %v of the key beside: %+v", what, q.Mode, results[1])
			}
			for i, q := range []driver.Request{q, beside} {
				if err == nil {
					h := driver.Hold{Key: q.Key, ID: q.ID, Mode: q.Mode, Slot: results[i].Slot, TTL: time.Minute, Undo: true}
					released, err := c.Release(ctx, []driver.Hold{h})
					check("undo", released, err)
				}
			}
		}
		waits := l.waits(request(key, time.Minute))
		results, err = c.Acquire(ctx, []driver.Request{waits})
		check("waiting", results, err)
		results, err = c.Release(ctx, []driver.Hold{{Key: key, ID: waits.ID, Undo: true}})
		check("undo of one that waits", results, err)
		results, err = c.Release(ctx, []driver.Hold{r, besideR, s, besideS})
		check("release", results, err)
		if err == nil && (results[1].Status != driver.Released || results[3].Status != driver.Released) {
			t.Errorf("%s: release of the key beside: %+v", what, results)
		}
		if _, err := c.ForceRelease(ctx, key); err != nil && !strings.Contains(err.Error(), "by hand") {
			t.Errorf("%s: force: %v", what, err)
		}
		exec(t, l.db, fmt.Sprintf("DELETE FROM %s WHERE name LIKE '%s%%'", l.shares(), key))
		exec(t, l.db, fmt.Sprintf("DELETE FROM %s WHERE name LIKE '%s%%'", l.table(), key))
	}
	if _, err := c.Reap(patient(t), time.Hour); err != nil {
		t.Errorf("%s: reap: %v", column, err)
	}
}
