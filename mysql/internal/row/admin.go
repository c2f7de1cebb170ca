package row

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/mysql/internal/conn"
)

// inTheWay tells the operator what stops a forced release and how to find it.
func inTheWay(err error) error {
	return fmt.Errorf("an open transaction, perhaps a guarded one of the holder, must end first: try again, or find it in information_schema.INNODB_TRX and KILL its trx_mysql_thread_id"+
		" (where that is 0, or the KILL changes nothing, it is a prepared XA branch: find it by XA RECOVER and end it by XA ROLLBACK or XA COMMIT, as its coordinator has decided): %w", err)
}

// Info is the row in words of package driver.
func (r Row) Info() driver.Info {
	i := driver.Info{Key: r.Key, Owner: r.Owner, Token: max(r.Token, 0), Since: time.UnixMicro(r.SinceMicros).UTC(), Wanted: r.Wanted}
	if r.Left > 0 {
		i.Held, i.Kept, i.Left, i.Hold = true, !r.Live, r.Left, r.ID
	}
	return i
}

// row implements known, also for what has a Row in it.
func (r Row) row() Row { return r }

// Inspect is one plain SELECT for any number of keys, because it is the probe of
// waiters. Only where a single key is asked for it asks too whether the key, if it
// is free, is pinned.
func (l *Table) Inspect(ctx context.Context, keys []string) (infos []driver.Info, err error) {
	err = l.db.Read(ctx, func(c *conn.Conn) (err error) {
		var rows map[string]Row
		if infos, rows, err = l.infos(ctx, c, keys); err != nil {
			return err
		}
		r, ok := rows[keys[0]]
		if len(keys) > 1 || !ok || infos[0].Held || r.Corrupt != "" {
			return nil
		}
		infos[0].Pinned, err = l.Guarded(ctx, c, r)
		return err
	})
	return infos, conn.Classify(l.What("inspect"), err)
}

// infos reads what there is of keys.
func (l *Table) infos(ctx context.Context, c *conn.Conn, keys []string) ([]driver.Info, map[string]Row, error) {
	read := l.reader(ctx, c)
	rows, err := read(keys)
	if err != nil {
		return nil, nil, err
	}
	infos, err := Infos(ctx, l, c, keys, rows, read)
	return infos, rows, err
}

func (l *Table) reader(ctx context.Context, c *conn.Conn) func(keys []string) (map[string]Row, error) {
	return func(keys []string) (map[string]Row, error) {
		return l.Rows(ctx, c, len(keys), func(i int) string { return keys[i] })
	}
}

// List is driver.Lister's.
func (l *Table) List(ctx context.Context, prefix, after string, limit int) (infos []driver.Info, err error) {
	err = l.db.Read(ctx, func(c *conn.Conn) error {
		listed, err := conn.Query(ctx, c, 0, Listing(l.Name, prefix, after, limit), ScanRow)
		if err != nil {
			return err
		}
		keys, rows := make([]string, len(listed)), make(map[string]Row, len(listed))
		for i, r := range listed {
			keys[i], rows[r.Key] = r.Key, r
		}
		if infos, err = Infos(ctx, l, c, keys, rows, l.reader(ctx, c)); err != nil {
			return err
		}
		infos = Existing(infos, rows)
		return MarkPinned(ctx, c, infos, rows, l.guardedOf)
	})
	return infos, conn.Classify(l.What("list"), err)
}

// MarkPinned asks which of the keys that nobody has are pinned. What the server does not answer, because the user may not lock
// rows or a lock on the table stands in the way, stays open.
func MarkPinned[K known](ctx context.Context, c *conn.Conn, infos []driver.Info, found map[string]K, ask func(context.Context, *conn.Conn, []Row) ([]string, error)) error {
	var free []Row
	at := make(map[string]*driver.Info)
	for i := range infos {
		if r := found[infos[i].Key].row(); !infos[i].Held && r.Corrupt == "" {
			free, at[r.Key] = append(free, r), &infos[i]
		}
	}
	if len(free) == 0 {
		return nil
	}
	pinned, err := ask(ctx, c, free)
	if conn.Number(err) > 0 {
		return nil
	}
	for _, key := range pinned {
		at[key].Pinned = true
	}
	return err
}

// BusyPatience is how long ForceRelease tries for a key whose row others are writing.
const BusyPatience = 5 * time.Second

// Insist is a forced release, tried until nothing is in the way, for as long as that
// may last. try reports whether a guard is, and how long its statement may stay unanswered
// is given: the row of a busy key has a queue, and from the second time on it stands in
// it for longer. The operator waits for that, and nobody waits behind a place in a queue.
func Insist(ctx context.Context, d *conn.DB, try func(bound time.Duration) (guarded bool, err error)) error {
	bound, start := d.Bound(0), time.Now()
	for since := start; ; bound = d.Bound(len(conn.Bounds) - 1) {
		guarded, err := try(bound)
		if !errors.Is(err, conn.ErrBlocked) {
			return err
		}
		if !guarded { // or the row changed between two questions, which looks like a guard
			since = time.Now()
		}
		if time.Since(start) > BusyPatience || time.Since(since) > conn.LockWait || !conn.Pause(ctx, 50*time.Millisecond) {
			return inTheWay(err)
		}
	}
}

// ErrChanged is that of a forced release which finds another hold than it is to end.
var ErrChanged error = &driver.Error{Lasting: true, NotApplied: true, Err: driver.ErrChanged}

// Is reports whether the row has the hold that was seen, or the phase, which its token names;
// nil: any will do.
func (r Row) Is(seen *driver.Info) bool {
	if seen == nil {
		return true
	}
	id := r.ID
	if r.InPhase {
		id = driver.HoldID{} // Info does not show it
	}
	return id == seen.Hold && max(r.Token, 0) == seen.Token
}

// Force writes the guard's index entry, so it waits for an open guarded
// transaction like a takeover and is bounded like one; between its tries it waits
// by asking. The holds of a phase are ended by a second statement, also by a force that
// comes after one which got no further. With seen it ends that hold or phase only. The first
// statement frees the key: what becomes of the second does not change the answer.
func (l *Table) Force(ctx context.Context, key string, seen *driver.Info) (info driver.Info, err error) {
	freed := false
	err = Insist(ctx, l.db, func(bound time.Duration) (guarded bool, err error) {
		err = l.db.Slow(ctx, func(c *conn.Conn) error {
			if c.Left() {
				return conn.ErrLeft
			}
			if freed {
				return EndShares(ctx, l, c, bound, key)
			}
			infos, rows, err := l.infos(ctx, c, []string{key})
			if err != nil {
				return err
			}
			info = infos[0]
			r, ok := rows[key]
			if !ok {
				if seen != nil {
					return ErrChanged
				}
				return nil
			}
			if !r.Is(seen) || seen != nil && r.InPhase && !info.Held {
				return ErrChanged
			}
			if why := r.Ungrantable(); why != "" {
				return l.CorruptError("force release of", key, why, true)
			}
			if guarded, err = l.Guarded(ctx, c, r); err != nil {
				return err
			}
			if guarded {
				return conn.ErrBlocked
			}
			var asRead *Row
			if seen != nil {
				asRead = &r
			}
			res, err := c.Exec(ctx, bound, l.forced(key, asRead))
			if err != nil {
				return err
			}
			if n, err := res.RowsAffected(); seen != nil && (err != nil || n == 0) {
				return errors.Join(err, ErrChanged)
			}
			freed = true
			if !r.InPhase && r.ID != (driver.HoldID{}) {
				return nil
			}
			return EndShares(ctx, l, c, bound, key)
		})
		return guarded, err
	})
	if freed {
		return info, nil
	}
	return info, conn.Classify(fmt.Sprintf("force release of %q in table %s", key, l.Name), err)
}

// EndShares is the second statement of a forced release: it ends the holds of a phase at once.
// Where it is not answered their renewals find out by themselves that the phase is over.
func EndShares(ctx context.Context, l *Table, c *conn.Conn, bound time.Duration, key string) error {
	_, err := c.Exec(ctx, bound, ForcedShares(l, key).Literal())
	return err
}

// Guarded reports whether a guard is open on the row: it locks the entry in the
// guard index, but not the row. Where the row is locked too, somebody is writing it.
func (l *Table) Guarded(ctx context.Context, c *conn.Conn, r Row) (bool, error) {
	keys, err := l.guardedOf(ctx, c, []Row{r})
	return len(keys) > 0, err
}

// LockedOf are the keys of the rows whose entries in the guard index somebody has locked.
func (l *Table) LockedOf(ctx context.Context, c *conn.Conn, rows []Row) (keys []string, err error) {
	unlocked, err := l.Unlocked(ctx, c, rows)
	if err != nil {
		return nil, err
	}
	for _, r := range rows {
		if !unlocked[r.Key] {
			keys = append(keys, r.Key)
		}
	}
	return keys, nil
}

// guardedOf are the keys of the rows on which a guard is open: one statement for all, and one more where there are locks.
func (l *Table) guardedOf(ctx context.Context, c *conn.Conn, rows []Row) ([]string, error) {
	keys, err := l.LockedOf(ctx, c, rows)
	if err != nil || len(keys) == 0 {
		return nil, err
	}
	writable, err := l.Writable(ctx, c, len(keys), func(i int) string { return keys[i] })
	return slices.DeleteFunc(keys, func(key string) bool { return !writable[key] }), err
}
