package mysqllock

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/rowlock/rowlock/driver"
)

// reap finds the rows by a plain read, which stops nobody, and deletes them one by
// one: a DELETE by range locks what it passes.
func (l *leases) reap(ctx context.Context, grace time.Duration) (removed int, err error) {
	old := newText(0).add("expires_at<" + now + "-INTERVAL ").us(grace).
		add(" MICROSECOND AND COALESCE(released_at,expires_at)<" + now + "-INTERVAL ").us(grace).
		add(" MICROSECOND AND token<1024*(" + nowUS + "-").us(grace).add(")").String()
	var found []string
	err = l.db.slow(ctx, func(c *conn) (err error) {
		found, err = query(ctx, c, 0, newText(0).add("SELECT name FROM ", l.table, " WHERE ", old, " LIMIT ").us64(driver.MaxReap).String(), scanKey)
		return err
	})
	if err != nil {
		return 0, classify(l.what("reap"), err)
	}
	for _, key := range found {
		statement := newText(0).add("DELETE t FROM ", l.table, " AS t FORCE INDEX (PRIMARY) WHERE name=").key(key).add(" AND ", old).String()
		n, err := l.db.removeRow(ctx, statement)
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
func (d *db) removeRow(ctx context.Context, statement string) (removed int, err error) {
	err = d.slow(ctx, func(c *conn) error {
		res, err := c.exec(ctx, d.bound(0), statement)
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
