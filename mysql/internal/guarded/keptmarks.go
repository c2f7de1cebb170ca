package guarded

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/mysql/internal/conn"
	"github.com/rowlock/rowlock/mysql/internal/row"
)

// Marks is that of mysqllock.
func (g *Transactions) Marks(ctx context.Context, key string, limit int) ([]driver.Mark, error) {
	switch {
	case limit < 1:
		return nil, &driver.Error{Lasting: true, NotApplied: true, Err: fmt.Errorf("mysql: %w: limit %d of Marks: use at least 1", driver.ErrInvalid, limit)}
	case len(key) < 1 || len(key) > driver.MaxKey:
		return nil, &driver.Error{Lasting: true, NotApplied: true, Err: fmt.Errorf("mysql: %w: marks of a key of %d bytes: use 1 to %d", driver.ErrInvalid, len(key), driver.MaxKey)}
	}
	if err := g.ready(ctx); err != nil {
		return nil, err
	}
	question := conn.NewText(300).Add("SELECT run,token,TIMESTAMPDIFF(MICROSECOND,'1970-01-01',at),"+row.NowMicros+" FROM ", g.runs, " FORCE INDEX (PRIMARY) WHERE name=").
		Key(key).Add(" ORDER BY at DESC,run LIMIT ").Int(int64(limit)).String()
	marks, err := conn.Detached(ctx, g.db, "marks", func(ctx context.Context) (marks []driver.Mark, err error) {
		err = g.db.Read(ctx, func(c *conn.Conn) error {
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
	return marks, conn.Classify("marks in table "+g.runs, err)
}

// ReapRuns is that of mysqllock.
func (g *Transactions) ReapRuns(ctx context.Context, olderThan time.Duration) (int, error) {
	if olderThan < driver.MinGrace {
		return 0, &driver.Error{Lasting: true, NotApplied: true, Err: fmt.Errorf("mysql: %w: ReapRuns of marks older than %v: use at least %v, or runs whose commit is not decided yet could run again", driver.ErrInvalid, olderThan, driver.MinGrace)}
	}
	if err := g.ready(ctx); err != nil {
		return 0, err
	}
	return conn.Detached(ctx, g.db, "reap runs", func(ctx context.Context) (int, error) { return g.reapRuns(ctx, olderThan) })
}

func (g *Transactions) reapRuns(ctx context.Context, olderThan time.Duration) (removed int, err error) {
	old := conn.NewText(0).Add("at<" + row.Now + "-INTERVAL ").Micros(olderThan).Add(" MICROSECOND").String()
	type mark struct{ key, run string }
	var found []mark
	err = g.db.Slow(ctx, func(c *conn.Conn) (err error) {
		found, err = conn.Query(ctx, c, 0, conn.NewText(0).Add("SELECT name,run FROM ", g.runs, " WHERE ", old, " LIMIT ").Int(driver.MaxReap).String(), func(rows *sql.Rows) (m mark, err error) {
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
		statement := conn.NewText(0).Add("DELETE m FROM ", g.runs, " AS m FORCE INDEX (PRIMARY) WHERE name=").Key(m.key).Add(" AND run=").Key(m.run).Add(" AND ", old).String()
		var n int
		n, err = g.db.RemoveRow(ctx, statement)
		removed += n
	}
	return removed, conn.Classify("reap runs", err)
}
