package locktx

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/mysql/internal/callertx"
	"github.com/rowlock/rowlock/mysql/internal/conn"
)

// makeRows sees to it that each key has a row, in autocommit on a connection of the
// Store: a row that the caller's transaction made would be seen, and waited for, by
// nobody before its commit. Only what is missing is inserted, because an insert of a
// row that is there waits for whoever has it locked. ctx may end before the caller's.
func (l *txLock) makeRows(ctx context.Context, keys []string) error {
	start := time.Now()
	for {
		err := conn.DetachedErr(ctx, l.db, "make rows in table "+l.table, func(ctx context.Context) error {
			return l.db.StepAgain(ctx, l.db.Acquires, func(c *conn.Conn) error { return l.makeMissing(ctx, c, keys) })
		})
		switch {
		case errors.Is(err, errBehind):
			if !conn.Pause(ctx, 20*time.Millisecond) {
				return fmt.Errorf("%w: %w", ctx.Err(), err)
			}
			start = time.Now()
			continue
		case !errors.Is(err, conn.ErrBlocked):
			return conn.Classify("make rows in table "+l.table, err)
		}
		// Another transaction locks the gap: at REPEATABLE READ one that looked for a row
		// which somebody had removed by hand. It may be the caller's.
		if time.Since(start) > conn.LockWait {
			return fmt.Errorf("%w: rows of table %s cannot be made, roll back and begin again: %w", driver.ErrConflict, l.table, err)
		}
		if !conn.Pause(ctx, 20*time.Millisecond) {
			return ctx.Err()
		}
	}
}

// makeMissing is one try of makeRows. On Galera it also waits until the node shows what the transaction that
// had the keys before has committed, which may have been on another node: see queryCausal.
func (l *txLock) makeMissing(ctx context.Context, c *conn.Conn, keys []string) (err error) {
	if l.home, err = l.where(ctx, c); err != nil {
		return err
	}
	t := conn.NewText(200+64*len(keys)).Add("SELECT name FROM ", l.table, " FORCE INDEX (PRIMARY) WHERE name IN ")
	found, err := l.queryCausal(ctx, c, t.In(len(keys), func(i int) { t.Key(keys[i]) }).String())
	if err != nil || len(found) == len(keys) {
		return err
	}
	_, err = c.Exec(ctx, l.db.Bound(0), l.insert(without(keys, found)))
	return err
}

// insert makes rows; others may be making them too. (INSERT IGNORE would also be silent about a row that the
// table refuses.)
func (l *txLock) insert(keys []string) string {
	t := conn.NewText(100+64*len(keys)).Add("INSERT INTO ", l.table, " (name) VALUES ")
	for i, k := range keys {
		if i > 0 {
			t.Add(",")
		}
		t.Add("(").Key(k).Add(")")
	}
	return t.Add(" ON DUPLICATE KEY UPDATE name=VALUES(name)").String()
}

// without gives the keys that were not found, in their order.
func without(keys, found []string) (rest []string) {
	have := make(map[string]bool, len(found))
	for _, k := range found {
		have[k] = true
	}
	for _, k := range keys {
		if !have[k] {
			rest = append(rest, k)
		}
	}
	return rest
}

// home is what a connection of the Store tells of the server, once. The tables are
// in its database, whatever the default one of the caller's transaction is.
type home struct {
	database, user string
	undoes         bool // MariaDB: a NOWAIT that fails undoes the whole transaction
}

func (l *Locker) where(ctx context.Context, c *conn.Conn) (home, error) {
	if h := l.known.Load(); h != nil {
		return *h, nil
	}
	found, err := conn.Query(ctx, c, 0, "SELECT "+callertx.Database+", USER(), @@innodb_rollback_on_timeout AND VERSION() LIKE '%mariadb%'", func(rows *sql.Rows) (h home, err error) {
		err = rows.Scan(&h.database, &h.user, &h.undoes)
		return h, err
	})
	if err == nil && len(found) != 1 {
		err = sql.ErrNoRows
	}
	if err != nil {
		return home{}, err
	}
	l.known.Store(&found[0])
	return found[0], nil
}
