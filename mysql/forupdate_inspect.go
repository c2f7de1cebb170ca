package mysqllock

import (
	"context"
	"database/sql"
	"slices"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/mysql/internal/conn"
)

// state is what the two tables tell of a key.
type state struct {
	row
	kept    time.Duration // how long MinHold keeps it
	badKept bool          // kept_until is no time, and may keep the key for good
	session uint64        // CONNECTION_ID of the last grant's session
	lockable,
	locked bool
}

// read asks first whose rows are locked and then reads the lease rows, all without
// waiting. A key without a lease row is not in the answer.
//
// Whether a key is held cannot be seen in the lease row, which a release leaves as
// it is. The server's own tables of locks would tell, but need privileges.
func (f *forUpdate) read(ctx context.Context, c *conn.Conn, keys []string) (map[string]state, error) {
	return conn.InParts(0, len(keys), func(from, to int) (map[string]state, error) { return f.readOnce(ctx, c, keys[from:to]) })
}

func (f *forUpdate) readOnce(ctx context.Context, c *conn.Conn, keys []string) (map[string]state, error) {
	free, err := f.lease.keySet(ctx, c, f.free(keys))
	if err != nil {
		return nil, err
	}
	found, err := conn.Query(ctx, c, 0, f.states(keys), func(rows *sql.Rows) (s state, err error) {
		var r rowScan
		var kept conn.Int
		if err = rows.Scan(append(r.columns(), &kept, &s.session, &s.lockable)...); err != nil {
			return s, err
		}
		s.row, s.kept, s.badKept = r.row(), conn.Micros(kept.N), kept.Off
		return s, nil
	})
	if err != nil {
		return nil, err
	}
	states := make(map[string]state, len(found))
	for _, s := range found {
		s.locked = s.lockable && !free[s.key]
		states[s.key] = s
	}
	return states, nil
}

// granted: a row that was made for an acquire which never came to its end says
// that it was acquired at never, has no hold and is not kept.
func (s state) granted() bool {
	return s.sinceMicros > neverMicros || s.kept > 0 || s.badKept || s.id != driver.HoldID{}
}

// neverMicros is never as a Unix time in microseconds.
const neverMicros = 24 * 3600 * 1_000_000

// info is the state in words of package driver. Left of a held key is that of the
// lease row, which each renewal moves; 0 while an acquire is between its steps.
func (s state) info() driver.Info {
	i := driver.Info{Key: s.key, Owner: s.owner, Token: max(s.token, 0), Wanted: s.wanted}
	if !s.granted() {
		return driver.Info{Key: s.key, Held: s.locked, Wanted: s.wanted}
	}
	i.Since = time.UnixMicro(s.sinceMicros).UTC()
	switch {
	case s.locked:
		i.Held, i.Left, i.Hold = true, max(s.left, s.kept, 0), s.id
	case s.kept > 0:
		i.Held, i.Kept, i.Left, i.Hold = true, true, s.kept, s.id
	}
	return i
}

func (f *forUpdate) inspect(ctx context.Context, keys []string) (infos []driver.Info, err error) {
	err = f.db.Read(ctx, func(c *conn.Conn) error {
		states, err := f.read(ctx, c, keys)
		if err != nil {
			return err
		}
		infos = make([]driver.Info, len(keys))
		for i, k := range keys {
			infos[i].Key = k
			if s, ok := states[k]; ok {
				infos[i] = s.info()
			}
		}
		if s, ok := states[keys[0]]; ok && len(keys) == 1 && !infos[0].Held && s.corrupt == "" {
			unlocked, err := f.lease.unlocked(ctx, c, []row{s.row})
			infos[0].Pinned = !unlocked[s.key]
			return err
		}
		return nil
	})
	return infos, conn.Classify(f.lease.what("inspect"), err)
}

// listPart is how many rows list looks at in one statement: while it runs, acquires
// of the free ones are refused.
const listPart = 50

// list reads the names from the lease rows, then the states in parts.
func (f *forUpdate) list(ctx context.Context, prefix, after string, limit int) (infos []driver.Info, err error) {
	var names []string
	err = f.db.Read(ctx, func(c *conn.Conn) (err error) {
		rows, err := conn.Query(ctx, c, 0, listing(f.lease.table, prefix, after, limit), scanRow)
		for _, r := range rows {
			names = append(names, r.key)
		}
		return err
	})
	for part := range slices.Chunk(names, listPart) {
		if err != nil {
			break
		}
		err = f.db.Read(ctx, func(c *conn.Conn) error {
			states, err := f.read(ctx, c, part)
			for _, k := range part {
				if s, ok := states[k]; ok && err == nil {
					infos = append(infos, s.info())
				}
			}
			return err
		})
	}
	if err != nil {
		return nil, conn.Classify(f.lease.what("list"), err)
	}
	return infos, nil
}
