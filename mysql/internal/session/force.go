package session

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/mysql/internal/conn"
	"github.com/rowlock/rowlock/mysql/internal/row"
	"github.com/rowlock/rowlock/mysql/internal/share"
)

// forceWait is how long a live holder has to free the row by itself, after force
// has changed the lease row: its heartbeats come at least once a second.
const forceWait = 1200 * time.Millisecond

// Force writes the lease row: the token is raised, so that guarded transactions of
// the holder that begin later fail, the hold is zero, MinHold ends. The holder's
// next heartbeat sees it and frees the row. With seen it ends that hold or phase only.
//
// A holder that has not done so after a second is silent: its session is ended by
// KILL. Where KILL is refused (another user's session), or nothing proves that the
// session which the row names still has the key, the row is free when the server
// ends the session, at most a TTL (in whole seconds) after its last heartbeat.
func (f *ForUpdate) Force(ctx context.Context, key string, seen *driver.Info) (info driver.Info, err error) {
	var before state
	freed := false
	err = row.Insist(ctx, f.db, func(bound time.Duration) (guarded bool, err error) {
		if freed {
			return false, f.db.Slow(ctx, func(c *conn.Conn) error { return share.EndShares(ctx, f.lease, c, bound, key) })
		}
		before, info, guarded, freed, err = f.raise(ctx, key, seen, bound)
		return guarded, err
	})
	if freed {
		err = nil // what becomes of the rest does not change the answer
	}
	if err == nil && before.locked && !before.InPhase {
		err = f.endHolder(ctx, before)
	}
	return info, conn.Classify(fmt.Sprintf("force release of %q in table %s", key, f.lease.Name), err)
}

// raise writes the lease row, if it still is as it was read, and gives the state before.
// guarded: an open guard is in the way. freed: it was written, also where err is that of what comes then.
func (f *ForUpdate) raise(ctx context.Context, key string, seen *driver.Info, bound time.Duration) (before state, info driver.Info, guarded, freed bool, err error) {
	err = f.db.Slow(ctx, func(c *conn.Conn) error {
		if c.Left() {
			return conn.ErrLeft
		}
		infos, states, err := f.infos(ctx, c, []string{key})
		if err != nil {
			return err
		}
		s, ok := states[key]
		before, info = s, infos[0]
		if !ok {
			if seen != nil {
				return row.ErrChanged
			}
			return nil
		}
		if !s.Is(seen) || seen != nil && !info.Held { // released since
			return row.ErrChanged
		}
		if !s.granted() { // nobody was ever granted the key
			return nil
		}
		if why := s.Ungrantable(); why != "" {
			return f.lease.CorruptError("force release of", key, why, true)
		}
		if guarded, err = f.lease.Guarded(ctx, c, s.Row); err != nil {
			return err
		}
		if guarded {
			return conn.ErrBlocked
		}
		disown := f.disown(key, s.Token)
		if s.InPhase {
			disown = f.disownPhase(key, s.Token)
		}
		res, err := c.Exec(ctx, bound, disown)
		if err != nil {
			return err
		}
		if n, err := res.RowsAffected(); err != nil || n == 0 {
			return errors.Join(err, conn.ErrBlocked) // it changed: once more
		}
		freed = true
		if s.InPhase || s.ID == (driver.HoldID{}) { // or a force before got no further
			return share.EndShares(ctx, f.lease, c, bound, key)
		}
		return nil
	})
	return before, info, guarded, freed, err
}

// endHolder waits until the row is free, or another's, and ends the session of a
// holder that is silent.
func (f *ForUpdate) endHolder(ctx context.Context, before state) error {
	killed := false
	for end := time.Now().Add(forceWait); ; {
		var s state
		if err := f.db.Read(ctx, func(c *conn.Conn) error {
			states, err := f.read(ctx, c, []string{before.Key})
			s = states[before.Key]
			return err
		}); err != nil {
			return err
		}
		if !s.locked || s.ID != (driver.HoldID{}) {
			return nil
		}
		if time.Now().After(end) {
			if killed {
				return nil // the session is gone: another has the row, a client's attempt most likely
			}
			err := f.killSession(ctx, before)
			if err != nil && time.Now().After(end.Add(conn.KillWait)) {
				return fmt.Errorf("the hold is ended, its token is stale, but its silent session (connection %d) still keeps the row, and was not ended (%w): it is free when the server ends that session, at most a TTL from now, or at once after KILL %d by a user who may", before.session, err, before.session)
			}
			if err == nil {
				killed, end = true, time.Now().Add(conn.KillWait)
			}
		}
		if !conn.Pause(ctx, 20*time.Millisecond) {
			return ctx.Err()
		}
	}
}

// killSession ends the session that the lease row named. A number means something
// only on the server, and in the run of it, that gave it, and a session may have
// gone on to another key: so it is not done when the server is younger than the
// grant, or a younger grant names the same session. The row was locked for more
// than a second after the lease row was taken away: an acquire under way would have
// written it by then. nil: the session has the row no longer, or will not have it in a
// moment.
func (f *ForUpdate) killSession(ctx context.Context, before state) error {
	if before.session == 0 {
		return errors.New("the row names none")
	}
	another := false
	err := f.db.Slow(ctx, func(c *conn.Conn) error {
		if before.run.Server != "" {
			now, err := c.Run(ctx)
			if err != nil {
				return err
			}
			if !before.run.Same(now) {
				return errors.New("the row names a session of another run of a server")
			}
		}
		status, err := conn.Query(ctx, c, 0, "SHOW GLOBAL STATUS LIKE 'Uptime'", func(rows *sql.Rows) (seconds int64, err error) {
			var name string
			err = rows.Scan(&name, &seconds)
			return seconds, err
		})
		if err != nil {
			return err
		}
		ages, err := conn.Query(ctx, c, 0, f.grants(before.session, before.Token), func(rows *sql.Rows) (n [2]int64, err error) {
			err = rows.Scan(&n[0], &n[1])
			return n, err
		})
		if err != nil {
			return err
		}
		if len(status) != 1 || len(ages) != 1 {
			return errors.New("the server does not say how long it runs")
		}
		younger, now := ages[0][0], ages[0][1]
		another = younger > 0
		if age := (now - before.SinceMicros) / 1e6; !another && age+2 >= status[0] {
			return fmt.Errorf("the grant is %d s old, the server runs for %d s: the number may be another session's", age, status[0])
		}
		return nil
	})
	if err != nil || another { // it has another key
		return err
	}
	ctl, err := f.db.Control.Get(ctx)
	if err != nil {
		return err
	}
	defer ctl.Put()
	_, err = ctl.Exec(ctx, 0, fmt.Sprintf("KILL CONNECTION %d", before.session))
	if conn.Number(err) == conn.ErNoSuchThread {
		return nil
	}
	return err
}
