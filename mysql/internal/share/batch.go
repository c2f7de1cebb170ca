package share

import (
	"context"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/mysql/internal/conn"
	"github.com/rowlock/rowlock/mysql/internal/row"
)

// Renew and Release are for holds of all modes. Those of readers and slots take the same steps as
// those of exclusive holds, on the rows of the share table. A statement is for holds of one of
// the two tables.

// Renew extends holds.
func (l *Table) Renew(ctx context.Context, holds []driver.Hold) ([]driver.Result, error) {
	return l.Write(ctx, "renew", l.DB.RenewStep, holds, func(b *row.Batch, c *conn.Conn) error { return l.renew(ctx, c, b) })
}

func (l *Table) renew(ctx context.Context, c *conn.Conn, b *row.Batch) error {
	type terms struct {
		ttl, maxHold, keep time.Duration
		share, confirm     bool
		owner              string
	}
	list := row.Groups(b, func(h driver.Hold) terms {
		t := terms{ttl: h.TTL, maxHold: h.MaxHold, share: isShare(&h)}
		if h.Confirm {
			t.confirm, t.owner, t.keep = true, h.Owner, h.Keep
		}
		return t
	})
	return b.Each(list, func(group []int) error {
		if isShare(&b.Holds[group[0]]) {
			return l.renewShares(ctx, c, b.With(shares{l}), group)
		}
		return b.RenewKeys(ctx, c, group)
	})
}

// renewShares renews readers and slots of equal TTL and MaxHold. Their rows are read in any case: one
// that was left in a phase that is over is extended by the statement, too.
func (l *Table) renewShares(ctx context.Context, c *conn.Conn, b *row.Batch, group []int) error {
	return b.Renew(ctx, c, group, l.extend, func(sent []int, _ row.Changed) error {
		rows, err := b.Rows.ReadHolds(ctx, c, b, sent)
		if err != nil {
			return conn.MaybeApplied(l.What("renew"), err)
		}
		for _, i := range sent {
			if b.SettleGone(i, rows) {
				continue
			}
			if r := rows[b.Rows.RowName(&b.Holds[i])]; r.Corrupt != "" {
				b.Results[i] = driver.Result{Err: l.shareCorrupt("renew", b.Holds[i].Key, r.Corrupt, false)}
			} else {
				b.Renewed(i, r)
			}
		}
		return nil
	})
}

// extend renews holds of equal TTL and MaxHold.
func (l *Table) extend(holds []driver.Hold) conn.Statement {
	return func(t *conn.Text) {
		t.Part(row.Extending(l.Share, &holds[0])).Part(row.Confirming(&holds[0])).Part(whereShare(holds))
	}
}

// shares are the rows of readers and slots. It implements row.Rows.
type shares struct{ *Table }

// RowName is the place.
func (s shares) RowName(h *driver.Hold) string { return place{h.Key, slotOf(h)}.name() }

// ReadHolds reads rows as those of exclusive holds would say it: what ended a hold is in ID and
// Live.
func (s shares) ReadHolds(ctx context.Context, c *conn.Conn, b *row.Batch, some []int) (map[string]row.Row, error) {
	found, err := s.shareRows(ctx, c, len(some), func(n int) place {
		h := &b.Holds[some[n]]
		return place{h.Key, slotOf(h)}
	})
	if err != nil {
		return nil, err
	}
	rows := make(map[string]row.Row, len(found))
	for name, r := range found {
		switch {
		case r.Live && !r.Stands && b.Step == "renew":
			// The phase was ended by force, or by hand, and this hold was left there.
			r.ID, r.Live = driver.HoldID{}, false
		case !r.Live && r.Phase == 0 && r.ID != (driver.HoldID{}):
			r.ID = buried
		}
		rows[name] = r.Row
	}
	return rows, nil
}

// buried is no hold: whoever has a row whose hold it is was ended by an exclusive attempt.
var buried = driver.HoldID{0: 0xff, 15: 0xfe}

// WritableHolds tells which of the holds' rows no transaction has locked.
func (s shares) WritableHolds(ctx context.Context, c *conn.Conn, b *row.Batch, some []int) (map[string]bool, error) {
	return conn.InParts(0, len(some), func(from, to int) (map[string]bool, error) {
		t := conn.NewText(100+100*(to-from)).Add("SELECT name,slot FROM ", s.Share, " FORCE INDEX (PRIMARY) WHERE (name,slot) IN ")
		t.In(to-from, func(i int) {
			h := &b.Holds[some[from+i]]
			t.Part(place{h.Key, slotOf(h)}.add)
		})
		return placeSet(ctx, c, t.Add(" FOR UPDATE SKIP LOCKED").String())
	})
}

// placeSet asks a question whose answer is places.
func placeSet(ctx context.Context, c *conn.Conn, question string) (map[string]bool, error) {
	found, err := conn.Query(ctx, c, 0, question, scanPlace)
	set := make(map[string]bool, len(found))
	for _, p := range found {
		set[p.name()] = true
	}
	return set, err
}

// CorruptError is shareCorrupt.
func (s shares) CorruptError(step, key, why string, notApplied bool) error {
	return s.shareCorrupt(step, key, why, notApplied)
}
