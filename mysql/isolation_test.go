package mysqllock

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/testserver"
	"github.com/rowlock/rowlock/mysql/internal/conn"
)

// TestP8_IsolationOfTheDSN: what the DSN or the server sets for the program's own
// transactions does not reach the library's statements. With
// innodb_snapshot_isolation at SERIALIZABLE MariaDB refuses a statement that meets a
// row which is newer than its snapshot (1020), repeated or not.
func TestP8_IsolationOfTheDSN(t *testing.T) {
	t.Parallel()
	for _, strategy := range []Strategy{VersionColumn, UniqueInsert} {
		t.Run(strategy.String(), func(t *testing.T) {
			t.Parallel()
			l := newLab(t, testserver.MariaDB, strategy)
			l.store()
			serializable := "tx_isolation=" + url.QueryEscape("'SERIALIZABLE'")
			stores := []*Store{l.bare("innodb_snapshot_isolation=1", serializable), l.bare("innodb_snapshot_isolation=1", serializable)}
			var all sync.WaitGroup
			for i := range 16 {
				all.Go(func() {
					s := stores[i%len(stores)]
					for range 30 {
						var reqs []driver.Request
						for _, k := range rand.Perm(12)[:6] {
							reqs = append(reqs, request(fmt.Sprint("k", k), time.Minute))
						}
						ctx := patient(t)
						results, err := s.Acquire(ctx, reqs)
						if err != nil {
							t.Errorf("P8: acquire: %v", err)
							return
						}
						var holds []driver.Hold
						for j, r := range results {
							switch {
							case r.Status == driver.Granted:
								holds = append(holds, driver.Hold{Key: reqs[j].Key, ID: reqs[j].ID, Token: r.Token, Stored: r.Stored})
							case r.Err != nil:
								t.Errorf("P8: acquire: %v", r.Err)
							}
						}
						if _, err := s.Release(ctx, holds); err != nil {
							t.Errorf("P8: release: %v", err)
							return
						}
					}
				})
			}
			all.Wait()
		})
	}
}

// TestIsolationOfTheStore: single statements run at REPEATABLE READ on both servers.
func TestIsolationOfTheStore(t *testing.T) {
	t.Parallel()
	for kind, name := range map[string]string{testserver.MySQL: "transaction_isolation", testserver.MariaDB: "tx_isolation"} {
		l := newLab(t, kind, VersionColumn)
		s := l.bare(name + "=" + url.QueryEscape("'READ-UNCOMMITTED'"))
		var level string
		must(t, s.db.Read(patient(t), func(c *conn.Conn) error {
			return queryRow(t.Context(), c, "SELECT @@SESSION."+name, &level)
		}))
		if level != "REPEATABLE-READ" {
			t.Errorf("%s: a connection of the Store is at %s", kind, level)
		}
	}
}

// TestStatementLog: where the server logs statements (binlog_format), a transaction
// at READ COMMITTED cannot write (1665).
func TestStatementLog(t *testing.T) {
	everywhere(t, func(t *testing.T, l *lab) {
		l.notes(t)
		l.store()
		p := l.programOn(t, l.bare("binlog_format="+url.QueryEscape("'STATEMENT'")), rowlock.Options{})
		ctx := patient(t)
		if l.strategy == SelectForUpdate {
			refused(t, p.Check(ctx), driver.ErrNotSupported, true, "binlog_format", "ROW")
			_, err := p.TryAcquire(ctx, "a")
			refused(t, err, driver.ErrNotSupported, true, "binlog_format", "ROW")
			return
		}
		must(t, p.Check(ctx))
		lease := p.lock(t, "a")
		write := func(text string) func(context.Context, *sql.Tx) error {
			return func(ctx context.Context, tx *sql.Tx) error { return note(ctx, tx, text) }
		}
		must(t, p.InTx(ctx, lease, write("in tx")))
		must(t, p.Once(ctx, lease, "run", write("once")))
		for _, text := range []string{"in tx", "once"} {
			if n := l.noted(t, text); n != 1 {
				t.Errorf("%s: %d effects", text, n)
			}
		}
		must(t, lease.Release(ctx))
		// A lease whose row is gone is noticed before a locking read, which at REPEATABLE
		// READ would lock the end of the index.
		lost := p.lock(t, "b")
		exec(t, l.db, "DELETE FROM "+l.table()+" WHERE name='b'")
		if err := p.InTx(ctx, lost, write("lost")); reasonOf(err) != rowlock.ReasonRemoved || l.noted(t, "lost") != 0 {
			t.Errorf("P4: a lease that was lost: %v, %d effects", err, l.noted(t, "lost"))
		}
	})
}

// queryRow reads a single value; no row leaves it as it is.
func queryRow(ctx context.Context, c *conn.Conn, question string, value *string) error {
	_, err := conn.Query(ctx, c, 0, question, func(rows *sql.Rows) (bool, error) { return true, rows.Scan(value) })
	return err
}
