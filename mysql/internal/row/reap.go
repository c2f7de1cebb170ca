package row

import (
	"context"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/mysql/internal/conn"
)

// Reap finds the rows by a plain read, which stops nobody, and deletes them one by
// one: a DELETE by range locks what it passes. The rows of slots go before that of their key,
// so that its next token is above theirs.
func (l *Table) Reap(ctx context.Context, grace time.Duration) (removed int, err error) {
	old := dead(grace) + " AND " + oldToken(grace)
	if l.Share != "" {
		if removed, err = l.ReapShares(ctx, grace); err != nil || removed >= driver.MaxReap {
			return removed, err
		}
		if err := l.reapPhases(ctx, grace); err != nil {
			return removed, err
		}
		old += l.NoShares()
	}
	var found []string
	err = l.db.Slow(ctx, func(c *conn.Conn) (err error) {
		found, err = conn.Query(ctx, c, 0, conn.NewText(0).Add("SELECT name FROM ", l.Name, " AS t WHERE ", old, " LIMIT ").Int(int64(driver.MaxReap-removed)).String(), conn.ScanKey)
		return err
	})
	if err != nil {
		return removed, conn.Classify(l.What("reap"), err)
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

// dead is the condition that a row is over for longer than the grace.
func dead(grace time.Duration) string {
	return conn.NewText(0).Add("expires_at<" + Now + "-INTERVAL ").Micros(grace).
		Add(" MICROSECOND AND COALESCE(released_at,expires_at)<" + Now + "-INTERVAL ").Micros(grace).
		Add(" MICROSECOND").String()
}

// oldToken is the condition that the token of a row is older than the grace.
func oldToken(grace time.Duration) string {
	return conn.NewText(0).Add("token<1024*(" + NowMicros + "-").Micros(grace).Add(")").String()
}
