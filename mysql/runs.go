package mysqllock

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/storekit"
	"github.com/rowlock/rowlock/mysql/internal/conn"
	"github.com/rowlock/rowlock/mysql/internal/row"
)

// A mark is a row (key, run) that is written in the transaction of the run's
// effects, so it is there exactly when they are.

// MarkRun guards the transaction and marks in it that the run has taken effect:
// the mark is there if and when you commit, together with what else you wrote. A
// run is a key and an ID, of 1 to 255 bytes that are compared byte for byte, for
// example a date. While the mark is kept (see ReapRuns) no other transaction can
// mark the run again, so its effects are committed at most once.
//
// Call it first in the transaction. What Guard says of tx, lease and errors holds
// here too; after any error roll back at once. An error that matches
// rowlock.ErrAlreadyRan: the run has its mark, its effects are there.
// rowlock.ErrInvalid names a bad run ID too, rowlock.ErrSchema a missing table. While another
// transaction of the same lease is marking the same run, MarkRun waits for its end,
// at most for your session's innodb_lock_wait_timeout.
//
// With more leases all are guarded, as Guard does; the run is one of the first lease's key.
//
// If the answer to your commit is lost, ask with MarkRun in a new transaction, or
// use Once, which does that by itself.
func (s *Store) MarkRun(ctx context.Context, tx Tx, lease *rowlock.Lease, run string, more ...*rowlock.Lease) error {
	if err := storekit.CheckRun(run); err != nil {
		return err
	}
	leases := storekit.LeasesOf(lease, more)
	ctx, free := upTo(ctx, leases)
	defer free()
	st, err := s.guard(ctx, tx, leases, run)
	if err != nil {
		return err
	}
	err = driver.ErrAlreadyRan
	if !st.marked {
		err = s.mark(ctx, tx, st.in, st.at, st.hold, run)
	}
	if err == nil {
		err = leases.Err() // it may have waited
	}
	return wrapRun(run, lease.Key(), orEnded(leases, err))
}

func wrapRun(run, key string, err error) error {
	return wrap(fmt.Sprintf("run %q of", run), key, err)
}

// mark writes the mark in a guarded transaction; in is what stands before the table's name in its
// session, and at the time. An INSERT looks at what is committed whatever snapshot the transaction
// has, waits for one who is marking the run now, and says without doubt which of them was first: with
// IGNORE also where the DSN has clientFoundRows, and where MariaDB would undo all rows that a session
// without unique_checks has put into an empty table. A read of a mark that is not there yet would lock
// the gap, and two who do that and insert deadlock.
func (s *Store) mark(ctx context.Context, tx Tx, in, at string, h driver.Hold, run string) error {
	s.db.Statements.Add(1)
	table := in + s.names.run
	res, err := tx.ExecContext(ctx, conn.NewText(400).Add("INSERT IGNORE INTO ", table, " (name,run,token,at) SELECT ").
		Key(h.Key).Add(",").Key(run).Add(",").Int(h.Token).Add(",", at, " FROM DUAL WHERE NOT EXISTS(SELECT 1 FROM ", table, " WHERE FALSE)").String())
	var n int64
	if err == nil {
		n, err = res.RowsAffected()
	}
	switch {
	case err == nil && n == 0:
		return s.notMarked(ctx, tx, table, h.Key, run)
	case conn.DoesNotFit(err):
		return conn.Classify("mark in table "+s.names.run, err)
	}
	return sessionError(txError(err))
}

// notMarked says why a mark was not written: because it is there, or because something on the table that is not
// rowlock's, such as a CHECK constraint, refuses it, about which IGNORE is silent.
func (s *Store) notMarked(ctx context.Context, tx Tx, table, key, run string) error {
	found, err := conn.Collect(ctx, tx, conn.NewText(300).Add("SELECT name FROM ", table, " FORCE INDEX (PRIMARY) WHERE name=").Key(key).
		Add(" AND run=").Key(run).Add(" LIMIT 1 LOCK IN SHARE MODE").String(), conn.ScanKey)
	switch {
	case err != nil:
		return sessionError(txError(err))
	case len(found) == 0:
		return fmt.Errorf("%w: table %s refuses the mark, and does not say why: a CHECK constraint, a foreign key, a unique index or a trigger is not rowlock's: drop it", driver.ErrSchema, table)
	}
	return driver.ErrAlreadyRan
}

// marked asks for the mark of a run in a way that waits for whoever is writing it:
// the answer is final. token is that of its lease, 0 where there is no mark.
func (s *Store) marked(ctx context.Context, c *conn.Conn, key, run string) (token int64, err error) {
	found, err := conn.Query(ctx, c, s.db.Bound(0), conn.NewText(300).Add("SELECT token FROM ", s.names.run, " FORCE INDEX (PRIMARY) WHERE name=").Key(key).
		Add(" AND run=").Key(run).Add(" LOCK IN SHARE MODE").String(), conn.ScanOne[conn.Int])
	if len(found) > 0 {
		token = max(found[0].N, 1) // whatever was done to it by hand, it is a mark
	}
	return token, err
}

// Marks are the marks of the runs of key, the newest first, at most limit (at least 1) of them:
// when each was made, by the server's clock. One whose transaction is still open is not there. It
// reads without locks.
func (s *Store) Marks(ctx context.Context, key string, limit int) ([]driver.Mark, error) {
	switch {
	case limit < 1:
		return nil, &driver.Error{Lasting: true, NotApplied: true, Err: fmt.Errorf("mysql: %w: limit %d of Marks: use at least 1", driver.ErrInvalid, limit)}
	case len(key) < 1 || len(key) > driver.MaxKey:
		return nil, &driver.Error{Lasting: true, NotApplied: true, Err: fmt.Errorf("mysql: %w: marks of a key of %d bytes: use 1 to %d", driver.ErrInvalid, len(key), driver.MaxKey)}
	}
	if err := s.ready(ctx); err != nil {
		return nil, err
	}
	question := conn.NewText(300).Add("SELECT run,token,TIMESTAMPDIFF(MICROSECOND,'1970-01-01',at),"+row.NowMicros+" FROM ", s.names.run, " FORCE INDEX (PRIMARY) WHERE name=").
		Key(key).Add(" ORDER BY at DESC,run LIMIT ").Int(int64(limit)).String()
	marks, err := conn.Detached(ctx, s.db, "marks", func(ctx context.Context) (marks []driver.Mark, err error) {
		err = s.db.Read(ctx, func(c *conn.Conn) error {
			marks, err = conn.Query(ctx, c, 0, question, func(rows *sql.Rows) (driver.Mark, error) {
				m := driver.Mark{Key: key}
				var run sql.RawBytes
				var token conn.Int
				var at, now int64
				err := rows.Scan(&run, &token, &at, &now)
				m.Run, m.Token, m.At, m.Age = string(run), token.N, time.UnixMicro(at).UTC(), time.Duration(now-at)*time.Microsecond
				return m, err
			})
			return err
		})
		return marks, err
	})
	return marks, conn.Classify("marks in table "+s.names.run, err)
}

// ReapRuns removes marks that are older than olderThan, at most 500 a call, and
// tells how many; as many as 500 means that there may be more. A run whose mark was
// removed can take effect again: keep marks for longer than anybody may try a run
// again, and in any case for an hour, otherwise the error matches
// rowlock.ErrInvalid. Nobody calls it for you. It reads the table from its
// beginning, and waits for no transaction: a mark that somebody is looking at is left for the next
// time. After an error some marks may be gone.
func (s *Store) ReapRuns(ctx context.Context, olderThan time.Duration) (int, error) {
	if olderThan < storekit.MinGrace {
		return 0, &driver.Error{Lasting: true, NotApplied: true, Err: fmt.Errorf("mysql: %w: ReapRuns of marks older than %v: use at least %v, or runs whose commit is not decided yet could run again", driver.ErrInvalid, olderThan, storekit.MinGrace)}
	}
	if err := s.ready(ctx); err != nil {
		return 0, err
	}
	return conn.Detached(ctx, s.db, "reap runs", func(ctx context.Context) (int, error) { return s.reapRuns(ctx, olderThan) })
}

func (s *Store) reapRuns(ctx context.Context, olderThan time.Duration) (removed int, err error) {
	old := conn.NewText(0).Add("at<" + row.Now + "-INTERVAL ").Micros(olderThan).Add(" MICROSECOND").String()
	type mark struct{ key, run string }
	var found []mark
	err = s.db.Slow(ctx, func(c *conn.Conn) (err error) {
		found, err = conn.Query(ctx, c, 0, conn.NewText(0).Add("SELECT name,run FROM ", s.names.run, " WHERE ", old, " LIMIT ").Int(driver.MaxReap).String(), func(rows *sql.Rows) (m mark, err error) {
			var key, run sql.RawBytes
			err = rows.Scan(&key, &run)
			return mark{string(key), string(run)}, err
		})
		return err
	})
	for _, m := range found {
		if err != nil {
			break
		}
		statement := conn.NewText(0).Add("DELETE m FROM ", s.names.run, " AS m FORCE INDEX (PRIMARY) WHERE name=").Key(m.key).Add(" AND run=").Key(m.run).Add(" AND ", old).String()
		var n int
		n, err = s.db.RemoveRow(ctx, statement)
		removed += n
	}
	return removed, conn.Classify("reap runs", err)
}
