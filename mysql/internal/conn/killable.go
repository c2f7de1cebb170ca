package conn

import (
	"context"
	"database/sql"
	"fmt"
	"sync/atomic"
	"time"
)

// Conclusion is something that was concluded from what was seen, and may be wrong,
// or not so any more: it is forgotten after ForgetAfter, and then found out again.
type Conclusion struct{ since atomic.Pointer[time.Time] }

// ForgetAfter is how long a conclusion lasts.
const ForgetAfter = time.Minute

// Load reports whether it was concluded, and not forgotten yet.
func (f *Conclusion) Load() bool {
	since := f.since.Load()
	return since != nil && time.Since(*since) < ForgetAfter
}

// Store concludes it, or that it is not so.
func (f *Conclusion) Store(yes bool) {
	if !yes {
		f.since.Store(nil)
		return
	}
	f.At(time.Now())
}

// At concludes it, as of that time.
func (f *Conclusion) At(now time.Time) { f.since.Store(&now) }

// together bounds the time between the openings of two connections that should
// have reached one server. Between others the address may have come to lead to
// another one.
const together = time.Second

// with reports whether two connections were opened together.
func (c *Conn) with(other *Conn) bool {
	return c.Opened.Sub(other.Ready) <= together && other.Opened.Sub(c.Ready) <= together
}

// looks is how often a session is looked at that shows no statement at all:
// MariaDB shows none of a session that is being looked at by another.
const looks = 3

// mayEnd is nil if the session with that number, as the control connection ctl sees
// it now, runs a statement on the lock tables, or if resting none at all. Behind a
// proxy that shares the server's connections among clients a number may be another
// client's by now, and all that KILL can then end is a statement on the lock tables,
// which whoever sent it sends again, or a session that does nothing.
func (d *DB) mayEnd(ctx context.Context, ctl *Conn, id uint64, resting bool) error {
	type seen struct {
		id   uint64
		ours sql.NullBool // null: it runs nothing, or is gone
	}
	text := fmt.Sprintf("SELECT CONNECTION_ID(),(SELECT INSTR(info,'`%s_')>0 FROM information_schema.processlist WHERE id=%d)", d.prefix, id)
	for range looks {
		found, err := Query(ctx, ctl, 0, text, func(rows *sql.Rows) (o seen, err error) {
			err = rows.Scan(&o.id, &o.ours)
			return o, err
		})
		switch {
		case err != nil && Number(err) == 0:
			return fmt.Errorf("%w: what the session does was not answered: %w", ErrCannotKill, err)
		case err != nil:
			return fmt.Errorf("%w: what the session does cannot be seen: %w", ErrNotOurs, err)
		case len(found) != 1:
		case found[0].id != ctl.ID:
			ctl.Broken = true
			return fmt.Errorf("%w: the control connection was session %d, and is %d now", errShared, ctl.ID, found[0].id)
		case found[0].ours.Bool, resting && !found[0].ours.Valid:
			return nil
		case found[0].ours.Valid:
			return ErrNotOurs
		}
	}
	return ErrNotOurs
}
