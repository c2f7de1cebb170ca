package row

import (
	"context"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/mysql/internal/conn"
)

// Reap finds the rows by a plain read, which stops nobody, and deletes them one by
// one: a DELETE by range locks what it passes.
func (l *Table) Reap(ctx context.Context, grace time.Duration) (removed int, err error) {
	old := conn.NewText(0).Add("expires_at<" + Now + "-INTERVAL ").Micros(grace).
		Add(" MICROSECOND AND COALESCE(released_at,expires_at)<" + Now + "-INTERVAL ").Micros(grace).
		Add(" MICROSECOND AND token<1024*(" + NowMicros + "-").Micros(grace).Add(")").String()
	var found []string
	err = l.db.Slow(ctx, func(c *conn.Conn) (err error) {
		found, err = conn.Query(ctx, c, 0, conn.NewText(0).Add("SELECT name FROM ", l.Name, " WHERE ", old, " LIMIT ").Int(driver.MaxReap).String(), conn.ScanKey)
		return err
	})
	if err != nil {
		return 0, conn.Classify(l.What("reap"), err)
	}
	for _, key := range found {
		statement := conn.NewText(0).Add("DELETE t FROM ", l.Name, " AS t FORCE INDEX (PRIMARY) WHERE name=").Key(key).Add(" AND ", old).String()
		n, err := l.db.RemoveRow(ctx, statement)
		if err != nil {
			return removed, conn.Classify(l.What("reap"), err)
		}
		removed += n
	}
	return removed, nil
}
