package row

import (
	"context"
	"fmt"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/mysql/internal/conn"
)

// RenewKeys renews exclusive holds of equal TTL and MaxHold.
func (b *Batch) RenewKeys(ctx context.Context, c *conn.Conn, group []int) error {
	extend := func(holds []driver.Hold) conn.Statement { return Extend(b.table.Name, holds) }
	return b.Renew(ctx, c, group, extend, func(sent []int, done Changed) error {
		if done.Rows == int64(len(sent)) {
			for _, i := range sent {
				b.Results[i] = driver.Result{Status: driver.Alive}
			}
			return nil
		}
		return b.TellRenewed(ctx, c, sent)
	})
}

// Renew sends the statement that renews holds of equal terms, for those whose rows can be written
// now. settle answers them.
func (b *Batch) Renew(ctx context.Context, c *conn.Conn, group []int, of func([]driver.Hold) conn.Statement, settle func(sent []int, done Changed) error) error {
	free, rest, err := b.unlocked(ctx, c, group)
	if err == nil && len(free) > 0 {
		err = b.Change(ctx, c, free, of, settle)
	}
	if err != nil {
		return err
	}
	return b.settleLocked(ctx, c, rest)
}

// unlocked finds the holds that can be renewed now, where the answers take so long that these could not be sent again in time, when one
// locked row has kept all waiting. They would wait for that row until their time is over, which costs the connection too,
// and so on until the leases are lost. The price is one more answer, and that a row which is locked now and again is missed, where a
// renewal would have been served in its turn. So a renewal that no other waits for is sent at once; so is one that has no time for the
// question, or that goes to a distant server, where the time is needed to open connections and the server ends the waits.
func (b *Batch) unlocked(ctx context.Context, c *conn.Conn, group []int) (free, rest []int, err error) {
	deadline, ends := ctx.Deadline()
	bound := b.table.DB.Bound(0)
	if !ends || len(b.Holds) == 1 || bound <= conn.Bounds[0] {
		return group, nil, nil
	}
	answer := bound / 4
	if left := time.Until(deadline); c.Distant() || left < 2*answer || left >= bound+4*answer { // to KILL, to ask twice, and to send again
		return group, nil, nil
	}
	writable, err := b.Rows.WritableHolds(ctx, c, b, group)
	if err != nil {
		return nil, nil, b.notEvenSkipping(err)
	}
	for _, i := range group {
		if writable[b.Rows.RowName(&b.Holds[i])] {
			free = append(free, i)
		} else {
			rest = append(rest, i)
		}
	}
	return free, rest, nil
}

// settleLocked answers holds that could not be renewed: they are over, or somebody keeps their rows locked.
func (b *Batch) settleLocked(ctx context.Context, c *conn.Conn, some []int) error {
	if len(some) == 0 {
		return nil
	}
	rows, err := b.Rows.ReadHolds(ctx, c, b, some)
	if err == nil {
		b.blocked(b.settleAll(some, rows))
		return nil
	}
	for _, i := range some { // the others have their answers
		b.Results[i] = driver.Result{Err: conn.Classify(b.what(), err)}
	}
	return nil
}

// TellRenewed finds out which of the holds live. Fewer rows than holds does not
// mean lost: a renewal that could not extend changes nothing.
func (b *Batch) TellRenewed(ctx context.Context, c *conn.Conn, sent []int) error {
	rows, err := b.Rows.ReadHolds(ctx, c, b, sent)
	if err != nil {
		return conn.MaybeApplied(b.what(), err)
	}
	for _, i := range sent {
		if b.SettleGone(i, rows) {
			continue
		}
		b.Renewed(i, rows[b.Rows.RowName(&b.Holds[i])])
	}
	return nil
}

// Renewed answers a hold that its row shows to be live.
func (b *Batch) Renewed(i int, r Row) {
	if left := r.Left; left > 0 {
		b.Results[i] = driver.Result{Status: driver.Alive, Left: left}
	} else if why := r.Corrupt; why != "" {
		b.Results[i] = driver.Result{Err: b.Rows.CorruptError("renew", b.Holds[i].Key, why, true)}
	} else { // Alive without Left would say: for the whole TTL
		b.Results[i] = driver.Result{Err: &driver.Error{NotApplied: true, Err: fmt.Errorf("mysql: renew %q: the hold has run out and cannot be extended (MaxHold)", b.Holds[i].Key)}}
	}
}
