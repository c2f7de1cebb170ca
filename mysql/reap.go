package mysqllock

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/storekit"
)

// Reap removes the rows of keys that have been free for longer than olderThan, at
// most 500 a call, and tells how many; as many as 500 means that there may be
// more. It is housekeeping: rows that stay cost disk, nothing else. olderThan is
// at least an hour, otherwise the error matches rowlock.ErrInvalid. A row that
// somebody is using is left for the next time. Clients call it by themselves, see
// rowlock.Options.
func (s *Store) Reap(ctx context.Context, olderThan time.Duration) (int, error) {
	if olderThan < storekit.MinGrace {
		return 0, &driver.Error{Lasting: true, NotApplied: true, Err: fmt.Errorf("mysql: %w: Reap of rows older than %v: use at least %v, or tokens could go backwards", driver.ErrInvalid, olderThan, storekit.MinGrace)}
	}
	if err := s.ready(ctx); err != nil {
		return 0, err
	}
	return detached(ctx, s, "reap", func(ctx context.Context) (int, error) { return s.keep.reap(ctx, olderThan) })
}

// reap finds the rows by a plain read, which stops nobody, and deletes them one by
// one: a DELETE by range locks what it passes.
func (l *leases) reap(ctx context.Context, grace time.Duration) (removed int, err error) {
	old := newText(0).add("expires_at<" + now + "-INTERVAL ").us(grace).
		add(" MICROSECOND AND COALESCE(released_at,expires_at)<" + now + "-INTERVAL ").us(grace).
		add(" MICROSECOND AND token<1024*(" + nowUS + "-").us(grace).add(")").String()
	var found []string
	err = l.s.slow(ctx, func(c *conn) (err error) {
		found, err = query(ctx, c, 0, newText(0).add("SELECT name FROM ", l.table, " WHERE ", old, " LIMIT ").us64(driver.MaxReap).String(), scanKey)
		return err
	})
	if err != nil {
		return 0, classify(l.what("reap"), err)
	}
	for _, key := range found {
		statement := newText(0).add("DELETE t FROM ", l.table, " AS t FORCE INDEX (PRIMARY) WHERE name=").key(key).add(" AND ", old).String()
		n, err := l.s.removeRow(ctx, statement)
		if err != nil {
			return removed, classify(l.what("reap"), err)
		}
		removed += n
	}
	return removed, nil
}

// removeRow sends a DELETE of one row and tells how many went. A row that somebody is
// using stays. Each is one turn on the slow connection, so that a pinned key need not
// wait for all.
func (s *Store) removeRow(ctx context.Context, statement string) (removed int, err error) {
	err = s.slow(ctx, func(c *conn) error {
		res, err := c.exec(ctx, s.bound(0), statement)
		if err != nil {
			return err
		}
		n, err := res.RowsAffected()
		removed = int(n)
		return err
	})
	if errors.Is(err, errBlocked) {
		err = nil
	}
	return removed, err
}

func scanKey(rows *sql.Rows) (string, error) {
	var b sql.RawBytes
	err := rows.Scan(&b)
	return string(b), err
}
