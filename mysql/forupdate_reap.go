package mysqllock

import (
	"context"
	"errors"
	"time"

	"github.com/rowlock/rowlock/driver"
)

// reap removes both rows of keys that are dead for longer than grace, the row that
// sessions lock too: it takes that lock first, without waiting, so it never touches
// a key that is held. An acquire that finds a row missing makes it again.
func (f *forUpdate) reap(ctx context.Context, grace time.Duration) (removed int, err error) {
	old := newText(0).add("expires_at<" + now + "-INTERVAL ").us(grace).
		add(" MICROSECOND AND COALESCE(released_at,expires_at)<" + now + "-INTERVAL ").us(grace).
		add(" MICROSECOND AND COALESCE(kept_until,expires_at)<" + now + "-INTERVAL ").us(grace).
		add(" MICROSECOND AND token<1024*(" + nowUS + "-").us(grace).add(")").String()
	var found []string
	err = f.db.slow(ctx, func(c *conn) (err error) {
		found, err = query(ctx, c, 0, newText(0).add("SELECT name FROM ", f.lease.table, " WHERE ", old, " LIMIT ").us64(driver.MaxReap).String(), scanKey)
		return err
	})
	if err != nil {
		return 0, classify(f.lease.what("reap"), err)
	}
	for _, key := range found {
		err := f.db.slow(ctx, func(c *conn) error {
			gone, err := f.reapKey(ctx, c, key, old)
			if gone {
				removed++
			}
			return err
		})
		if err != nil && !errors.Is(err, errBlocked) {
			return removed, classify(f.lease.what("reap"), err)
		}
	}
	return removed, nil
}

// reapKey is one transaction: the row's lock, then the lease row if it is still
// dead, then the row.
func (f *forUpdate) reapKey(ctx context.Context, c *conn, key, old string) (gone bool, err error) {
	states, err := f.read(ctx, c, []string{key})
	if err != nil || states[key].locked {
		return false, err
	}
	if _, err := c.exec(ctx, 0, "START TRANSACTION"); err != nil {
		return false, err
	}
	end := "ROLLBACK"
	defer func() {
		if _, ended := c.exec(ctx, 0, end); ended != nil {
			c.broken, gone = true, false
			err = errors.Join(err, ended)
		}
	}()
	if states[key].lockable { // else its maker went away between the two
		if free, err := f.lease.keySet(ctx, c, f.unlocked([]string{key}, "FOR UPDATE SKIP LOCKED")); err != nil || !free[key] {
			return false, err
		}
	}
	for _, statement := range []string{
		newText(0).add("DELETE t FROM ", f.lease.table, " AS t FORCE INDEX (PRIMARY) WHERE name=").key(key).add(" AND ", old).String(),
		newText(0).add("DELETE FROM ", f.rows, " WHERE name=").key(key).String(),
	} {
		res, err := c.exec(ctx, f.db.bound(0), statement)
		if err != nil {
			return false, err
		}
		if n, err := res.RowsAffected(); err != nil || n == 0 && !gone {
			return false, err
		}
		gone = true
	}
	end = "COMMIT"
	return true, nil
}
