package share

import (
	"context"
	"crypto/rand"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/mysql/internal/conn"
	"github.com/rowlock/rowlock/mysql/internal/row"
)

// Reap removes rows of readers and slots, and of keys. The rows of slots go before that of their
// key, so that its next token is above theirs.
func (l *Table) Reap(ctx context.Context, grace time.Duration) (removed int, err error) {
	if removed, err = l.ReapShares(ctx, grace); err != nil || removed >= driver.MaxReap {
		return removed, err
	}
	if err := l.reapPhases(ctx, grace); err != nil {
		return removed, err
	}
	keys, err := l.Table.Reap(ctx, grace, driver.MaxReap-removed, l.NoShares())
	return removed + keys, err
}

// ReapShares removes the rows of readers and slots that are over for long: a slot's with
// its last token, which is as old. A hold that nobody ended ends by it; that it has expired
// was long ago.
func (l *Table) ReapShares(ctx context.Context, grace time.Duration) (removed int, err error) {
	old := row.Dead(grace) + " AND (NOT " + aSlot + " OR " + row.OldToken(grace) + ")"
	var found []place
	err = l.DB.Slow(ctx, func(c *conn.Conn) (err error) {
		found, err = conn.Query(ctx, c, 0, conn.NewText(0).Add("SELECT name,slot FROM ", l.Share, " WHERE ", old, " LIMIT ").Int(driver.MaxReap).String(), scanPlace)
		return err
	})
	for _, p := range found {
		if err != nil {
			break
		}
		var n int
		n, err = l.DB.RemoveRow(ctx, conn.NewText(0).Add("DELETE t FROM ", l.Share, " AS t FORCE INDEX (PRIMARY) WHERE name=").Key(p.key).
			Add(" AND slot=").Uint(p.slot).Add(" AND ", old).String())
		removed += n
	}
	return removed, conn.Classify(l.What("reap"), err)
}

// NoShares adds to a condition on the keys' row t that the key has no readers or slots, however
// old.
func (l *Table) NoShares() string {
	return " AND NOT EXISTS (SELECT 1 FROM " + l.Share + " AS s FORCE INDEX (PRIMARY) WHERE s.name=t.name)"
}

// reaperID names one step of a reaper.
func reaperID() (id driver.HoldID) {
	_, _ = rand.Read(id[:]) // never fails
	return id
}

// reaperTTL is how long a key is kept from others if the reaper stops between two steps.
const reaperTTL = time.Second

// reapPhases ends phases that began before the grace and have no holds. It does what an
// exclusive attempt does that does not wait, and releases the key at once: the row goes when
// it has been free for the grace.
func (l *Table) reapPhases(ctx context.Context, grace time.Duration) error {
	return l.EndIdle(ctx, grace, func(c *conn.Conn, r *driver.Request) error {
		a := newAttempt(l, []driver.Request{*r}, nil)
		if res := a.takeLined(ctx, c, 0); res.Status != driver.Granted {
			return res.Err // nil: somebody uses it
		}
		_, err := c.ExecOne(ctx, l.DB.Bound(0), row.End(l.Name, []driver.Hold{{Key: r.Key, ID: r.ID}}, 0))
		return err
	})
}

// EndIdle ends phases that began before the grace and have no holds: end leaves the key free, as an exclusive request does that does
// not wait.
func (l *Table) EndIdle(ctx context.Context, grace time.Duration, end func(*conn.Conn, *driver.Request) error) error {
	var found []string
	err := l.DB.Slow(ctx, func(c *conn.Conn) (err error) {
		found, err = conn.Query(ctx, c, 0, conn.NewText(0).Add("SELECT name FROM ", l.Name, " AS t WHERE "+InPhase+" AND acquired_at<"+row.Now+"-INTERVAL ").Micros(grace).
			Add(" MICROSECOND"+l.NoShares()+" LIMIT ").Int(driver.MaxReap).String(), conn.ScanKey)
		return err
	})
	if err != nil {
		return conn.Classify(l.What("reap"), err)
	}
	for _, key := range found {
		r := driver.Request{Key: key, ID: reaperID(), TTL: reaperTTL, Owner: "reaper"}
		if err := l.DB.Slow(ctx, func(c *conn.Conn) error { return end(c, &r) }); err != nil {
			return conn.Classify(l.What("reap"), err)
		}
	}
	return nil
}
