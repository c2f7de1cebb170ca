package mysqllock

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/internal/testserver"
	"github.com/rowlock/rowlock/mysql/internal/conn"
	"github.com/rowlock/rowlock/mysql/internal/locktx"
)

// late lets node 1 of Galera be behind node 0, which has committed a row in a table effects. Node 1 has to apply a change
// of a table without any key before, for which it looks through the whole table for each row.
func (l *clusterLab) late(nodes []*sql.DB) {
	l.t.Helper()
	exec(l.t, nodes[0], "CREATE TABLE IF NOT EXISTS effects (id INT AUTO_INCREMENT PRIMARY KEY) ENGINE=InnoDB")
	for rows := 4000; rows < 100_000; rows *= 2 {
		exec(l.t, nodes[0], "DROP TABLE IF EXISTS slow")
		exec(l.t, nodes[0], "CREATE TABLE slow (n INT, text CHAR(200)) ENGINE=InnoDB")
		exec(l.t, nodes[0], fmt.Sprintf("INSERT INTO slow SELECT seq, 'a' FROM seq_1_to_%d", rows))
		exec(l.t, nodes[0], "DELETE FROM effects")
		eventually(l.t, "node 1 has all of it", func() bool {
			var n, old int
			err := nodes[1].QueryRow("SELECT (SELECT COUNT(*) FROM slow), (SELECT COUNT(*) FROM effects)").Scan(&n, &old)
			return err == nil && n == rows && old == 0
		})
		exec(l.t, nodes[0], "UPDATE slow SET text='b' ORDER BY n DESC")
		exec(l.t, nodes[0], "INSERT INTO effects VALUES ()")
		if l.effects(nodes[1]) == 0 {
			return
		}
	}
	l.t.Fatal("node 1 is never behind")
}

func (l *clusterLab) effects(on interface {
	QueryRowContext(context.Context, string, ...any) *sql.Row
}) (n int) {
	l.t.Helper()
	must(l.t, on.QueryRowContext(patient(l.t), "SELECT COUNT(*) FROM effects").Scan(&n))
	return n
}

// TestP27_LockTxOnANodeThatIsBehind: who has a key by LockTx sees what the transaction before has committed, also when that
// was on another node of Galera, which has failed since, and this one has not applied it yet.
func TestP27_LockTxOnANodeThatIsBehind(t *testing.T) {
	testserver.Long(t)
	t.Parallel()
	l := newClusterLab(t, testserver.MariaDBGalera3)
	var nodes []*sql.DB
	for _, dsn := range l.MemberDSNs() {
		db, err := sql.Open("mysql", dsn)
		must(t, err)
		defer db.Close()
		nodes = append(nodes, db)
	}
	s, err := Open(l.MemberDSNs()[1], Options{})
	must(t, err)
	defer s.Close()
	must(t, s.Migrate(patient(t))) // node 1 may not have the tables yet, and takes this after them
	locked := func() *sql.Tx {
		tx, err := nodes[1].Begin()
		must(t, err)
		t.Cleanup(func() { _ = tx.Rollback() })
		must(t, s.LockTx(patient(t), tx, "k"))
		return tx
	}
	must(t, locked().Rollback()) // the row of the key is there

	l.late(nodes)
	if n := l.effects(locked()); n != 1 {
		t.Errorf("P27: under the key %d of 1 effects are seen", n)
	}

	// The way of servers without SET STATEMENT, which leaves the session as it was.
	l.late(nodes)
	c, err := s.db.Acquires.Get(patient(t))
	must(t, err)
	defer c.Put()
	ctx := patient(t)
	_, err = c.Exec(ctx, 0, "SET SESSION wsrep_sync_wait=2")
	must(t, err)
	_, err = locktx.CausalBySession(ctx, c, "SELECT name FROM rowlock_tx")
	must(t, err)
	if n := l.effects(nodes[1]); n != 1 {
		t.Errorf("after the causality check %d of 1 effects are seen", n)
	}
	after, err := conn.Query(ctx, c, 0, "SELECT @@SESSION.wsrep_sync_wait", conn.ScanOne[int])
	must(t, err)
	if after[0] != 2 {
		t.Errorf("P14: wsrep_sync_wait was 2, is %d", after[0])
	}
}

// TestP8_LockTxWhileTheNodeStaysBehind: the server answers a causality wait that takes too long with the number of a lock wait (1205).
// LockTx waits on, and LockTxWait until its time is over; neither takes it for another transaction's lock.
func TestP8_LockTxWhileTheNodeStaysBehind(t *testing.T) {
	testserver.Long(t)
	t.Parallel()
	l := newClusterLab(t, testserver.MariaDBGalera3)
	var nodes []*sql.DB
	for _, dsn := range l.MemberDSNs()[:2] {
		db, err := sql.Open("mysql", dsn)
		must(t, err)
		defer db.Close()
		nodes = append(nodes, db)
	}
	s, err := Open(l.MemberDSNs()[1], Options{})
	must(t, err)
	defer s.Close()
	must(t, s.Migrate(patient(t))) // node 1 may not have the tables yet, and takes this after them
	lock := func(lock func(context.Context, Tx) error) error {
		tx, err := nodes[1].Begin()
		must(t, err)
		defer func() { _ = tx.Rollback() }()
		return lock(patient(t), tx)
	}
	waits := func(ctx context.Context, tx Tx) error { return s.LockTx(ctx, tx, "k") }
	must(t, lock(waits))

	exec(t, nodes[1], "SET GLOBAL wsrep_provider_options='repl.causal_read_timeout=PT0.2S'")
	own, err := nodes[1].Conn(t.Context())
	must(t, err)
	defer own.Close()
	_, err = own.ExecContext(patient(t), "FLUSH TABLES WITH READ LOCK") // so it applies nothing
	must(t, err)
	unlock := func() { _, _ = own.ExecContext(t.Context(), "UNLOCK TABLES") }
	defer unlock()
	exec(t, nodes[0], "CREATE TABLE effects (id INT AUTO_INCREMENT PRIMARY KEY) ENGINE=InnoDB")

	err = lock(func(ctx context.Context, tx Tx) error { return s.LockTxWait(ctx, tx, 3*conn.LockWait, "k") })
	if !errors.Is(err, rowlock.ErrHeld) || errors.Is(err, rowlock.ErrConflict) || errors.Is(err, context.DeadlineExceeded) || strings.Contains(err.Error(), "1205") {
		t.Errorf("P8: LockTxWait on a node that stays behind: %v, want ErrHeld", err)
	}
	before, answered := s.db.Blocked.Load(), make(chan error, 1)
	start := time.Now()
	go func() { answered <- lock(waits) }()
	eventually(t, "LockTx waits on", func() bool {
		return time.Since(start) > 2*conn.LockWait && s.db.Blocked.Load() > before+2 || len(answered) > 0
	})
	unlock()
	if err := <-answered; err != nil {
		t.Errorf("P8: LockTx on a node that was behind for a while: %v", err)
	}
}
