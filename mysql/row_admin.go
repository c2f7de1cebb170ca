package mysqllock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/mysql/internal/conn"
)

// inTheWay tells the operator what stops a forced release and how to find it.
func inTheWay(err error) error {
	return fmt.Errorf("an open transaction, perhaps a guarded one of the holder, must end first: try again, or find it in information_schema.INNODB_TRX and KILL its trx_mysql_thread_id: %w", err)
}

// info is the row in words of package driver.
func (r row) info() driver.Info {
	i := driver.Info{Key: r.key, Owner: r.owner, Token: max(r.token, 0), Since: time.UnixMicro(r.sinceMicros).UTC(), Wanted: r.wanted}
	if r.left > 0 {
		i.Held, i.Kept, i.Left, i.Hold = true, !r.live, r.left, r.id
	}
	return i
}

// inspect is one plain SELECT for any number of keys, because it is the probe of
// waiters. Only where a single key is asked for it asks too whether the key, if it
// is free, is pinned.
func (l *leases) inspect(ctx context.Context, keys []string) (infos []driver.Info, err error) {
	err = l.db.Read(ctx, func(c *conn.Conn) error {
		rows, err := l.rows(ctx, c, len(keys), func(i int) string { return keys[i] })
		if err != nil {
			return err
		}
		infos = make([]driver.Info, len(keys))
		for i, k := range keys {
			infos[i].Key = k
			if r, ok := rows[k]; ok {
				infos[i] = r.info()
			}
		}
		r, ok := rows[keys[0]]
		if len(keys) > 1 || !ok || r.left > 0 || r.corrupt != "" {
			return nil
		}
		infos[0].Pinned, err = l.guarded(ctx, c, r)
		return err
	})
	return infos, conn.Classify(l.what("inspect"), err)
}

func (l *leases) list(ctx context.Context, prefix, after string, limit int) (infos []driver.Info, err error) {
	var rows []row
	err = l.db.Read(ctx, func(c *conn.Conn) error {
		rows, err = conn.Query(ctx, c, 0, listing(l.table, prefix, after, limit), scanRow)
		return err
	})
	infos = make([]driver.Info, len(rows))
	for i, r := range rows {
		infos[i] = r.info()
	}
	return infos, conn.Classify(l.what("list"), err)
}

// busyPatience is how long ForceRelease tries for a key whose row others are writing.
const busyPatience = 5 * time.Second

// insist is a forced release, tried until nothing is in the way, for as long as that
// may last. try reports whether a guard is, and how long its statement may stay unanswered
// is given: the row of a busy key has a queue, and from the second time on it stands in
// it for longer. The operator waits for that, and nobody waits behind a place in a queue.
func insist(ctx context.Context, d *conn.DB, try func(bound time.Duration) (guarded bool, err error)) error {
	bound, start := d.Bound(0), time.Now()
	for since := start; ; bound = d.Bound(len(conn.Bounds) - 1) {
		guarded, err := try(bound)
		if !errors.Is(err, conn.ErrBlocked) {
			return err
		}
		if !guarded { // or the row changed between two questions, which looks like a guard
			since = time.Now()
		}
		if time.Since(start) > busyPatience || time.Since(since) > conn.LockWait || !conn.Pause(ctx, 50*time.Millisecond) {
			return inTheWay(err)
		}
	}
}

// force writes the guard's index entry, so it waits for an open guarded
// transaction like a takeover and is bounded like one; between its tries it waits
// by asking.
func (l *leases) force(ctx context.Context, key string) (info driver.Info, err error) {
	err = insist(ctx, l.db, func(bound time.Duration) (guarded bool, err error) {
		err = l.db.Slow(ctx, func(c *conn.Conn) error {
			rows, err := l.rows(ctx, c, 1, func(int) string { return key })
			if err != nil {
				return err
			}
			r, ok := rows[key]
			if !ok {
				info = driver.Info{Key: key}
				return nil
			}
			info = r.info()
			if why := r.ungrantable(); why != "" {
				return l.corruptError("force release of", key, why, true)
			}
			if guarded, err = l.guarded(ctx, c, r); err != nil {
				return err
			}
			if guarded {
				return conn.ErrBlocked
			}
			_, err = c.Exec(ctx, bound, forced(l.table, key))
			return err
		})
		return guarded, err
	})
	return info, conn.Classify(fmt.Sprintf("force release of %q in table %s", key, l.table), err)
}

// guarded reports whether a guard is open on the row: it locks the entry in the
// guard index, but not the row. Where the row is locked too, somebody is writing it.
func (l *leases) guarded(ctx context.Context, c *conn.Conn, r row) (bool, error) {
	unlocked, err := l.unlocked(ctx, c, []row{r})
	if err != nil || unlocked[r.key] {
		return false, err
	}
	writable, err := l.writable(ctx, c, 1, func(int) string { return r.key })
	return writable[r.key], err
}
