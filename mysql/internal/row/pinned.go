package row

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/mysql/internal/conn"
)

// Look finds out without waiting which of the open keys another transaction
// blocks. It answers those that are held (a held key never waits for a guard) and
// those that are pinned, and returns the rest: free rows that nobody has locked,
// and keys without a row.
func (a *Attempt) Look(ctx context.Context, c *conn.Conn, open []int) ([]int, error) {
	rest, free, entries, err := a.readFree(ctx, c, open)
	if err != nil || len(free) == 0 {
		return rest, err
	}
	unlocked, err := a.Unlocked(ctx, c, entries)
	if err != nil {
		return open, err
	}
	var locked []int
	for _, i := range free {
		if unlocked[a.Reqs[i].Key] {
			rest = append(rest, i)
		} else {
			locked = append(locked, i)
		}
	}
	if len(locked) == 0 {
		return rest, nil
	}
	// A guard locks the index entry only. Where the row is locked as well, another
	// client may just be taking the key: then it will be held in a moment.
	writable, err := a.Writable(ctx, c, len(locked), func(i int) string { return a.Reqs[locked[i]].Key })
	if err != nil {
		return open, err
	}
	rows := make(map[string]Row, len(entries))
	for _, r := range entries {
		rows[r.Key] = r
	}
	var busy []int
	stood := false
	fail := func(err error) ([]int, error) {
		if stood {
			err = conn.MaybeApplied(a.What("acquire"), err)
		}
		return open, err
	}
	for _, i := range locked {
		a.Results[i] = driver.Result{Status: driver.Pinned}
		if r := rows[a.Reqs[i].Key]; !writable[r.Key] {
			r.Line().tell(&a.Results[i], a.Reqs[i].ID, r.now)
			busy = append(busy, i)
		} else if err := a.standPinned(ctx, c, i, rows[a.Reqs[i].Key]); err != nil {
			return fail(err)
		}
		stood = stood || a.Results[i].Place > 0
	}
	if len(busy) > 0 && conn.Pause(ctx, BusyPause) {
		absent, _, _, err := a.readFree(ctx, c, busy)
		if err != nil {
			return fail(err)
		}
		rest = append(rest, absent...)
	}
	return rest, nil
}

// standPinned adds a request with Stand to the line of a key that is pinned, and says where it stands.
func (a *Attempt) standPinned(ctx context.Context, c *conn.Conn, i int, r Row) error {
	q := &a.Reqs[i]
	line := r.Line()
	if q.Stand && line.Place(q.ID) == 0 {
		ch := change{line: line.With(q, r.now)}
		_, done, err := a.change(ctx, c, a.DB.Bound(0), &r, ch)
		if err != nil && !errors.Is(err, conn.ErrBlocked) {
			return err
		}
		if done {
			line = ch.line
		}
	}
	line.tell(&a.Results[i], q.ID, r.now)
	return nil
}

// writableOf are those of the requests whose rows no transaction has locked.
func (a *Attempt) writableOf(ctx context.Context, c *conn.Conn, some []int) (free []int, err error) {
	if len(some) == 0 {
		return nil, nil
	}
	writable, err := a.Writable(ctx, c, len(some), func(i int) string { return a.Reqs[some[i]].Key })
	for _, i := range some {
		if writable[a.Reqs[i].Key] {
			free = append(free, i)
		}
	}
	return free, err
}

// BusyPause is how long a row that another client is taking is left alone.
const BusyPause = 5 * time.Millisecond

// readFree answers the open keys that are held. It returns those without a row, or in a
// phase where the attempt Joins, and those that are free, with their rows.
func (a *Attempt) readFree(ctx context.Context, c *conn.Conn, open []int) (absent, free []int, entries []Row, err error) {
	rows, err := a.Rows(ctx, c, len(open), func(i int) string { return a.Reqs[open[i]].Key })
	if err != nil {
		return open, nil, nil, err
	}
	for _, i := range open {
		r, ok := rows[a.Reqs[i].Key]
		switch {
		case !ok, r.InPhase && a.Joins:
			absent = append(absent, i)
		case r.Left > 0, r.Ungrantable() != "":
			if a.settle(i, rows) {
				continue
			}
			if a.Results[i] = (driver.Result{Status: driver.Held, Left: max(r.Left, 0), Owner: r.Owner, Shared: r.InPhase}); r.Left > 0 {
				a.due = append(a.due, i)
			}
		default:
			free = append(free, i)
			entries = append(entries, r)
		}
	}
	return absent, free, entries, nil
}

// Unlocked tells which of the rows no transaction has locked, by their entries in
// the guard index. What is locked is skipped, so the question does not wait:
// https://dev.mysql.com/doc/refman/9.7/en/innodb-locking-reads.html (SKIP LOCKED);
// MariaDB has it since 10.6. A row that another client is just taking over looks
// locked too.
func (l *Table) Unlocked(ctx context.Context, c *conn.Conn, rows []Row) (map[string]bool, error) {
	return conn.InParts(0, len(rows), func(from, to int) (map[string]bool, error) {
		return l.unlockedOnce(ctx, c, rows[from:to])
	})
}

func (l *Table) unlockedOnce(ctx context.Context, c *conn.Conn, rows []Row) (map[string]bool, error) {
	t := conn.NewText(200+160*len(rows)).Add("SELECT name FROM ", l.Name, " FORCE INDEX (guard) WHERE (", strings.Join(l.GuardColumns, ","), ") IN ")
	t.In(len(rows), func(i int) {
		t.Add("(").Int(rows[i].Token).Add(",").Key(rows[i].Key)
		if len(l.GuardColumns) == 3 {
			t.Add(",").Bytes(rows[i].ID[:])
		}
		t.Add(")")
	})
	return l.KeySet(ctx, c, t.Add(" FOR UPDATE SKIP LOCKED").String())
}

// Writable tells which of the keys' rows no transaction has locked.
func (l *Table) Writable(ctx context.Context, c *conn.Conn, n int, key func(int) string) (map[string]bool, error) {
	return conn.InParts(0, n, func(from, to int) (map[string]bool, error) {
		t := conn.NewText(100+64*(to-from)).Add("SELECT name FROM ", l.Name, " FORCE INDEX (PRIMARY) WHERE name IN ")
		t.In(to-from, func(i int) { t.Key(key(from + i)) })
		return l.KeySet(ctx, c, t.Add(" FOR UPDATE SKIP LOCKED").String())
	})
}

// KeySet asks a question whose answer is keys.
func (l *Table) KeySet(ctx context.Context, c *conn.Conn, question string) (map[string]bool, error) {
	keys, err := conn.Query(ctx, c, 0, question, conn.ScanKey)
	if err != nil {
		return nil, err
	}
	set := make(map[string]bool, len(keys))
	for _, k := range keys {
		set[k] = true
	}
	return set, nil
}
