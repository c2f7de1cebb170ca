package row

import (
	"context"
	"database/sql"
	"slices"
	"time"

	"github.com/rowlock/rowlock/mysql/internal/conn"
)

// Reap removes the rows of keys that are over for longer than the grace and for which the
// condition holds, of the row t: at most so many. It finds the rows by a plain read, which stops
// nobody, and deletes them one by one: a DELETE by range locks what it passes. Rows with a live entry in their line stay.
func (l *Table) Reap(ctx context.Context, grace time.Duration, most int, condition string) (removed int, err error) {
	old := Dead(grace) + " AND " + OldToken(grace) + condition
	type dead struct {
		key  string
		line []byte
		live bool
	}
	line := "'',0"
	if l.Lined {
		line = "line," + NowMicros
	}
	var found []dead
	err = l.DB.Slow(ctx, func(c *conn.Conn) (err error) {
		question := conn.NewText(0).Add("SELECT name,", line, " FROM ", l.Name, " AS t WHERE ", old, " LIMIT ").Int(int64(most)).String()
		found, err = conn.Query(ctx, c, 0, question, func(rows *sql.Rows) (d dead, err error) {
			var key, line sql.RawBytes
			var now conn.Int
			err = rows.Scan(&key, &line, &now)
			return dead{string(key), slices.Clone(line), len(ReadLine(line, now.N)) > 0}, err
		})
		return err
	})
	if err != nil {
		return removed, conn.Classify(l.What("reap"), err)
	}
	for _, d := range found {
		if d.live {
			continue
		}
		statement := conn.NewText(0).Add("DELETE t FROM ", l.Name, " AS t FORCE INDEX (PRIMARY) WHERE name=").Key(d.key).Add(" AND ", old)
		if len(d.line) > 0 {
			statement.Add(" AND line=").Bytes(d.line)
		} else if l.Lined {
			statement.Add(" AND " + NoLine)
		}
		n, err := l.DB.RemoveRow(ctx, statement.String())
		if err != nil {
			return removed, conn.Classify(l.What("reap"), err)
		}
		removed += n
	}
	return removed, nil
}

// Dead is the condition that a row is over for longer than the grace.
func Dead(grace time.Duration) string {
	return conn.NewText(0).Add("expires_at<" + Now + "-INTERVAL ").Micros(grace).
		Add(" MICROSECOND AND COALESCE(released_at,expires_at)<" + Now + "-INTERVAL ").Micros(grace).
		Add(" MICROSECOND").String()
}

// OldToken is the condition that the token of a row is older than the grace.
func OldToken(grace time.Duration) string {
	return conn.NewText(0).Add("token<" + TokenRange + "*(" + NowMicros + "-").Micros(grace).Add(")").String()
}
