package session

import (
	"context"
	"database/sql"
	"slices"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/mysql/internal/conn"
	"github.com/rowlock/rowlock/mysql/internal/row"
	"github.com/rowlock/rowlock/mysql/internal/share"
)

// state is what the two tables tell of a key.
type state struct {
	row.Row
	kept    time.Duration // how long MinHold keeps it
	badKept bool          // kept_until is no time, and may keep the key for good
	session uint64        // CONNECTION_ID of the last grant's session
	run     conn.Run      // in which that was; see serverrun.go
	lockable,
	locked, // by whichever session
	confirmed, // by one that was granted the key: the lease row tells of it
	elsewhere bool // none that was granted it has it locked here, but a hold of another run may be trusted
}

// read asks first whose rows are locked and then reads the lease rows, all without
// waiting. A key without a lease row is not in the answer.
//
// Whether a key is held cannot be seen in the lease row, which a release leaves as
// it is. The server's own tables of locks would tell, but need privileges.
func (f *ForUpdate) read(ctx context.Context, c *conn.Conn, keys []string) (map[string]state, error) {
	return conn.InParts(0, len(keys), func(from, to int) (map[string]state, error) { return f.readOnce(ctx, c, keys[from:to]) })
}

func (f *ForUpdate) readOnce(ctx context.Context, c *conn.Conn, keys []string) (map[string]state, error) {
	free, err := f.lease.KeySet(ctx, c, f.ProbeStatement(keys))
	if err != nil {
		return nil, err
	}
	found, err := conn.Query(ctx, c, 0, f.states(keys), func(rows *sql.Rows) (s state, err error) {
		var r row.Scan
		var kept conn.Int
		if err = rows.Scan(append(r.Of(f.lease.Table), &kept, &s.session, &s.run.Server, &s.run.Started, &s.lockable, &s.confirmed)...); err != nil {
			return s, err
		}
		s.Row, s.kept, s.badKept = r.Row(), conn.Micros(kept.N), kept.Off
		return s, nil
	})
	if err != nil {
		return nil, err
	}
	states := make(map[string]state, len(found))
	for _, s := range found {
		s.locked = s.lockable && !free[s.Key]
		s.confirmed = s.confirmed && s.locked
		if s.Live && !s.confirmed && !s.InPhase && s.ID != (driver.HoldID{}) {
			if s.elsewhere, err = elsewhere(ctx, c, s.run, s.Left); err != nil {
				return nil, err
			}
		}
		states[s.Key] = s
	}
	return states, nil
}

// granted: a row that was made for an acquire which never came to its end says
// that it was acquired at never, has no hold and is not kept.
func (s state) granted() bool {
	return s.SinceMicros > neverMicros || s.kept > 0 || s.badKept || s.ID != driver.HoldID{}
}

// neverMicros is never as a Unix time in microseconds.
const neverMicros = 24 * 3600 * 1_000_000

// Info is the state in words of package driver. Left of a held key is that of the
// lease row, which each renewal moves. While an acquire is between its steps the key is
// held, but the lease row tells of the hold before: all that is known is its token.
func (s state) Info() driver.Info {
	if !s.granted() {
		return driver.Info{Key: s.Key, Held: s.locked, Wanted: s.Wanted}
	}
	i := driver.Info{Key: s.Key, Owner: s.Owner, Token: max(s.Token, 0), Wanted: s.Wanted}
	if s.locked && !s.confirmed && !s.elsewhere && !s.InPhase && s.kept <= 0 {
		i.Held, i.Owner = true, ""
		return i
	}
	i.Since = time.UnixMicro(s.SinceMicros).UTC()
	switch {
	case s.InPhase: // who has it stands elsewhere: see share.Infos
	case s.confirmed, s.elsewhere:
		i.Held, i.Left, i.Hold = true, max(s.Left, s.kept, 0), s.ID
	case s.kept > 0:
		i.Held, i.Kept, i.Left, i.Hold = true, true, s.kept, s.ID
	}
	return i
}

// infos reads what there is of keys.
func (f *ForUpdate) infos(ctx context.Context, c *conn.Conn, keys []string) ([]driver.Info, map[string]state, error) {
	read := func(keys []string) (map[string]state, error) { return f.read(ctx, c, keys) }
	states, err := read(keys)
	if err != nil {
		return nil, nil, err
	}
	infos, err := share.Infos(ctx, f.lease, c, keys, states, read)
	for i := range infos {
		switch w := infos[i].Wanted.Client; {
		case w != 0 && w != row.QueueClient, infos[i].Gated: // that of the queue says only that somebody may stand there
			infos[i].Waiting = 1 // at least; the server does not tell its queue
		}
	}
	return infos, states, err
}

// Inspect asks which rows are locked, and reads the lease rows.
func (f *ForUpdate) Inspect(ctx context.Context, keys []string) (infos []driver.Info, err error) {
	err = f.db.Read(ctx, func(c *conn.Conn) (err error) {
		var states map[string]state
		if infos, states, err = f.infos(ctx, c, keys); err != nil {
			return err
		}
		if s, ok := states[keys[0]]; ok && len(keys) == 1 && !infos[0].Held && s.Corrupt == "" {
			unlocked, err := f.lease.Unlocked(ctx, c, []row.Row{s.Row})
			infos[0].Pinned = !unlocked[s.Key]
			return err
		}
		return nil
	})
	return infos, conn.Classify(f.lease.What("inspect"), err)
}

// listPart is how many rows list looks at in one statement: while it runs, acquires
// of the free ones are refused.
const listPart = 50

// List reads the names from the lease rows, then the states in parts.
func (f *ForUpdate) List(ctx context.Context, prefix, after string, limit int) (infos []driver.Info, err error) {
	var names []string
	err = f.db.Read(ctx, func(c *conn.Conn) (err error) {
		rows, err := conn.Query(ctx, c, 0, row.Listing(f.lease.Question(), f.lease.Name, prefix, after, limit), f.lease.Scan)
		names = nil // this may be run again
		for _, r := range rows {
			names = append(names, r.Key)
		}
		return err
	})
	for part := range slices.Chunk(names, listPart) {
		if err != nil {
			break
		}
		n := len(infos)
		err = f.db.Read(ctx, func(c *conn.Conn) error {
			found, states, err := f.infos(ctx, c, part)
			infos = append(infos[:n], row.Existing(found, states)...) // this may be run again
			if err != nil {
				return err
			}
			return row.MarkPinned(ctx, c, infos[n:], states, f.lease.LockedOf) // an attempt would have the key's other row locked
		})
	}
	if err != nil {
		return nil, conn.Classify(f.lease.What("list"), err)
	}
	return infos, nil
}
