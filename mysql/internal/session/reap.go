package session

import (
	"context"
	"errors"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/mysql/internal/conn"
	"github.com/rowlock/rowlock/mysql/internal/row"
)

// Reap removes both rows of keys that are dead for longer than grace, the row that
// sessions lock too: it takes that lock first, without waiting, so it never touches
// a key that is held. An acquire that finds a row missing makes it again.
func (f *ForUpdate) Reap(ctx context.Context, grace time.Duration) (removed int, err error) {
	if removed, err = f.lease.ReapShares(ctx, grace); err != nil || removed >= driver.MaxReap {
		return removed, err
	}
	if err := f.lease.EndIdle(ctx, grace, func(c *conn.Conn, r *driver.Request) error {
		return f.lease.Passage(r, f.endPhase(r)).All(ctx, c).Err // nil: it is free, or somebody uses it
	}); err != nil {
		return removed, err
	}
	old := conn.NewText(0).Add("expires_at<" + row.Now + "-INTERVAL ").Micros(grace).
		Add(" MICROSECOND AND COALESCE(released_at,expires_at)<" + row.Now + "-INTERVAL ").Micros(grace).
		Add(" MICROSECOND AND COALESCE(kept_until,expires_at)<" + row.Now + "-INTERVAL ").Micros(grace).
		Add(" MICROSECOND AND token<" + row.TokenRange + "*(" + row.NowMicros + "-").Micros(grace).Add(")" + f.lease.NoShares()).String()
	var found []string
	err = f.db.Slow(ctx, func(c *conn.Conn) (err error) {
		found, err = conn.Query(ctx, c, 0, conn.NewText(0).Add("SELECT name FROM ", f.lease.Name, " AS t WHERE ", old, " LIMIT ").Int(int64(driver.MaxReap-removed)).String(), conn.ScanKey)
		return err
	})
	if err != nil {
		return removed, conn.Classify(f.lease.What("reap"), err)
	}
	for _, key := range found {
		err := f.db.Slow(ctx, func(c *conn.Conn) error {
			gone, err := f.reapKey(ctx, c, key, old)
			if gone {
				removed++
			}
			return err
		})
		if err != nil && !errors.Is(err, conn.ErrBlocked) {
			return removed, conn.Classify(f.lease.What("reap"), err)
		}
	}
	return removed, nil
}

// reapKey is one transaction: the row's lock, then the lease row if it is still
// dead, then the row.
func (f *ForUpdate) reapKey(ctx context.Context, c *conn.Conn, key, old string) (gone bool, err error) {
	states, err := f.read(ctx, c, []string{key})
	if err != nil || states[key].locked {
		return false, err
	}
	if _, err := c.Exec(ctx, 0, "START TRANSACTION"); err != nil {
		return false, err
	}
	end := conn.Rollback
	defer func() {
		if _, ended := c.Exec(ctx, 0, end); ended != nil {
			c.Broken, gone = true, false
			err = errors.Join(err, ended)
		}
	}()
	if states[key].lockable { // else its maker went away between the two
		if free, err := f.lease.KeySet(ctx, c, f.unlocked([]string{key}, "FOR UPDATE SKIP LOCKED")); err != nil || !free[key] {
			return false, err
		}
	}
	for _, statement := range []string{
		conn.NewText(0).Add("DELETE t FROM ", f.lease.Name, " AS t FORCE INDEX (PRIMARY) WHERE name=").Key(key).Add(" AND ", old).String(),
		conn.NewText(0).Add("DELETE FROM ", f.Rows, " WHERE name=").Key(key).String(),
	} {
		res, err := c.Exec(ctx, f.db.Bound(0), statement)
		if err != nil {
			return false, err
		}
		if n, err := res.RowsAffected(); err != nil || n == 0 && !gone {
			return false, err
		}
		gone = true
	}
	end = conn.Commit
	return true, nil
}
