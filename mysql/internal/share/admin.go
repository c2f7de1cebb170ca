package share

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/mysql/internal/conn"
	"github.com/rowlock/rowlock/mysql/internal/row"
)

// Inspect is one plain SELECT for any number of keys, because it is the probe of
// waiters. Only where a single key is asked for it asks too whether the key, if it
// is free, is pinned.
func (l *Table) Inspect(ctx context.Context, keys []string) (infos []driver.Info, err error) {
	err = l.DB.Read(ctx, func(c *conn.Conn) (err error) {
		var rows map[string]row.Row
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
func (l *Table) infos(ctx context.Context, c *conn.Conn, keys []string) ([]driver.Info, map[string]row.Row, error) {
	read := l.reader(ctx, c)
	rows, err := read(keys)
	if err != nil {
		return nil, nil, err
	}
	infos, err := Infos(ctx, l, c, keys, rows, read)
	return infos, rows, err
}

func (l *Table) reader(ctx context.Context, c *conn.Conn) func(keys []string) (map[string]row.Row, error) {
	return func(keys []string) (map[string]row.Row, error) {
		return l.Rows(ctx, c, len(keys), func(i int) string { return keys[i] })
	}
}

// List is driver.Lister's.
func (l *Table) List(ctx context.Context, prefix, after string, limit int) (infos []driver.Info, err error) {
	err = l.DB.Read(ctx, func(c *conn.Conn) error {
		listed, err := conn.Query(ctx, c, 0, row.Listing(l.Question(), l.Name, prefix, after, limit), l.Scan)
		if err != nil {
			return err
		}
		keys, rows := make([]string, len(listed)), make(map[string]row.Row, len(listed))
		for i, r := range listed {
			keys[i], rows[r.Key] = r.Key, r
		}
		if infos, err = Infos(ctx, l, c, keys, rows, l.reader(ctx, c)); err != nil {
			return err
		}
		infos = row.Existing(infos, rows)
		return row.MarkPinned(ctx, c, infos, rows, l.GuardedOf)
	})
	return infos, conn.Classify(l.What("list"), err)
}

// Force writes the guard's index entry, so it waits for an open guarded
// transaction like a takeover and is bounded like one; between its tries it waits
// by asking. The holds of a phase are ended by a second statement, also by a force that
// comes after one which got no further. With seen it ends that hold or phase only. The first
// statement frees the key: what becomes of the second does not change the answer.
func (l *Table) Force(ctx context.Context, key string, seen *driver.Info) (info driver.Info, err error) {
	freed := false
	err = row.Insist(ctx, l.DB, func(bound time.Duration) (guarded bool, err error) {
		err = l.DB.Slow(ctx, func(c *conn.Conn) error {
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
					return row.ErrChanged
				}
				return nil
			}
			if !r.Is(seen) || seen != nil && r.InPhase && !info.Held {
				return row.ErrChanged
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
			var asRead *row.Row
			if seen != nil {
				asRead = &r
			}
			res, err := c.Exec(ctx, bound, l.forced(key, asRead))
			if err != nil {
				return err
			}
			if n, err := res.RowsAffected(); seen != nil && (err != nil || n == 0) {
				return errors.Join(err, row.ErrChanged)
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

// forced ends whatever hold the key has. An expired one that nobody took counts:
// it could be renewed. It ends a phase too, since its hold is none any more; the token is
// above those of the slots. With asRead the row must be as it was read.
func (l *Table) forced(key string, asRead *row.Row) string {
	t := conn.NewText(760).Part(row.Update(l.Name)).Add("token=GREATEST(token+" + row.TokenRange + "," + row.NewToken + ",").Part(AboveShares(l, key)).
		Add("),hold=" + row.NoHold + ",expires_at=" + row.Epoch + ",released_at=" + row.Now + ",phase=NULL WHERE name=").
		Key(key).Add(" AND (released_at IS NULL OR expires_at>" + row.Now + ")")
	if asRead != nil {
		t.Add(" AND hold=").Bytes(asRead.ID[:]).Add(" AND token=").Int(asRead.Token)
	}
	return t.String()
}
