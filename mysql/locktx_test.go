package mysqllock

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/internal/testserver"
)

var levels = [2]sql.IsolationLevel{sql.LevelRepeatableRead, sql.LevelReadCommitted}

// begin begins a transaction that ends with the test.
func (l *lab) begin() *sql.Tx {
	l.t.Helper()
	tx, err := l.db.Begin()
	must(l.t, err)
	l.t.Cleanup(func() { _ = tx.Rollback() })
	return tx
}

// free reports whether another transaction could have the key.
func free(t testing.TB, l *lab, s *Store, key string) bool {
	t.Helper()
	tx, err := l.db.Begin()
	must(t, err)
	defer tx.Rollback()
	err = s.LockTxNoWait(patient(t), tx, key)
	if err != nil && !errors.Is(err, rowlock.ErrHeld) {
		t.Fatal(err)
	}
	return err == nil
}

// TestLockTxLosesNoUpdate: what is read by a plain SELECT after LockTx is what the
// transaction before left, at both isolation levels.
func TestLockTxLosesNoUpdate(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, l *lab) {
		exec(t, l.db, "CREATE TABLE counter (id INT PRIMARY KEY, n INT) ENGINE=InnoDB")
		exec(t, l.db, "INSERT INTO counter VALUES (1,0)")
		s := l.store()
		const workers, turns = 8, 10
		add := func(ctx context.Context, level sql.IsolationLevel) error {
			tx, err := l.db.BeginTx(ctx, &sql.TxOptions{Isolation: level})
			if err != nil {
				return err
			}
			defer tx.Rollback()
			if err := s.LockTx(ctx, tx, "counter/1"); err != nil {
				return err
			}
			var n int
			if err := tx.QueryRowContext(ctx, "SELECT n FROM counter WHERE id=1").Scan(&n); err != nil {
				return err
			}
			if _, err := tx.ExecContext(ctx, "UPDATE counter SET n=? WHERE id=1", n+1); err != nil {
				return err
			}
			return tx.Commit()
		}
		var wg sync.WaitGroup
		for worker := range workers {
			level := levels[worker%2]
			wg.Go(func() {
				for range turns {
					if err := add(patient(t), level); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		var n int
		must(t, l.db.QueryRow("SELECT n FROM counter").Scan(&n))
		if n != workers*turns {
			t.Errorf("%d updates of %d were lost", workers*turns-n, workers*turns)
		}
	})
}

// TestLockTxManyKeys: several keys in any order, old ones and new ones, deadlock
// with nobody.
func TestLockTxManyKeys(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, l *lab) {
		s := l.store()
		var holders [8]struct {
			sync.Mutex
			n atomic.Int64
		}
		begin, bound := time.Now(), testserver.Patience(t)
		goesOn := func() bool { // on a busy machine until each was locked
			took := time.Since(begin)
			for k := range holders {
				if holders[k].n.Load() == 0 && took < bound {
					return true
				}
			}
			return took < 2*time.Second
		}
		lock := func(level sql.IsolationLevel, hot []int, keys []string) {
			tx, err := l.db.BeginTx(context.Background(), &sql.TxOptions{Isolation: level})
			if err != nil {
				t.Error(err)
				return
			}
			defer tx.Rollback()
			if err := s.LockTx(context.Background(), tx, keys...); err != nil {
				t.Errorf("lock %q: %v", keys, err)
				return
			}
			for _, k := range hot {
				if !holders[k].TryLock() {
					t.Errorf("hot%d has two holders", k)
					continue
				}
				defer holders[k].Unlock() // before the rollback
				holders[k].n.Add(1)
			}
		}
		var wg sync.WaitGroup
		for worker := range 12 {
			wg.Go(func() {
				for turn := 0; goesOn(); turn++ {
					hot := rand.Perm(len(holders))[:3]
					keys := []string{fmt.Sprint("fresh", turn)}
					for _, k := range hot {
						keys = append(keys, fmt.Sprint("hot", k))
					}
					rand.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
					lock(levels[worker%2], hot, keys)
				}
			})
		}
		wg.Wait()
		for k := range holders {
			if holders[k].n.Load() == 0 {
				t.Errorf("hot%d was never locked", k)
			}
		}
	})
}

// TestLockTxNoWait: a busy key is named, and the transaction goes on.
func TestLockTxNoWait(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, l *lab) {
		s, ctx := l.store(), patient(t)
		exec(t, l.db, "CREATE TABLE notes (n INT) ENGINE=InnoDB")
		first, second := l.begin(), l.begin()
		must(t, s.LockTxNoWait(ctx, first, "b", "c"))
		_, err := second.Exec("INSERT INTO notes VALUES (1)")
		must(t, err)
		err = s.LockTxNoWait(ctx, second, "d", "c", "a", "b")
		var held *rowlock.HeldError
		if !errors.As(err, &held) || held.Key != "b" || errors.Is(err, rowlock.ErrConflict) {
			t.Errorf("busy keys b and c: %v", err)
		}
		must(t, first.Rollback())
		must(t, s.LockTxNoWait(ctx, second, "d", "c", "a", "b"))
		must(t, second.Commit())
		var n int
		must(t, l.db.QueryRow("SELECT COUNT(*) FROM notes").Scan(&n))
		if n != 1 {
			t.Error("the transaction was undone by a busy key")
		}
		if !free(t, l, s, "b") {
			t.Error("commit frees no key")
		}
	})
}

// TestLockTxWait: a bounded wait ends in time or has the key, and leaves the
// transaction and its connection alone; so does a context that ends.
func TestLockTxWait(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, l *lab) {
		s, ctx := l.store(), patient(t)
		exec(t, l.db, "CREATE TABLE notes (n INT) ENGINE=InnoDB")
		first, second := l.begin(), l.begin()
		must(t, s.LockTxWait(ctx, first, time.Second, "a"))
		_, err := second.Exec("INSERT INTO notes VALUES (1)")
		must(t, err)

		_, err = second.Exec("SET SESSION innodb_lock_wait_timeout=100000") // the server's own 50 s do not end the wait
		must(t, err)
		start := time.Now()
		err = s.LockTxWait(ctx, second, 200*time.Millisecond, "a", "b")
		if !errors.Is(err, rowlock.ErrHeld) || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a busy key: %v", err)
		}
		if took := time.Since(start); took < 200*time.Millisecond {
			t.Errorf("a wait of 200 ms took %v", took)
		}

		err = inMoreTime(t, 200*time.Millisecond, func(ctx context.Context) error { return s.LockTx(ctx, second, "a") }, told)
		if !told(err) {
			t.Errorf("a context that ended: %v", err)
		}
		over, cancel := context.WithDeadline(ctx, time.Now())
		defer cancel()
		if err := s.LockTx(over, second, "a"); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, rowlock.ErrHeld) {
			t.Errorf("a context that had ended before: %v", err)
		}

		time.AfterFunc(200*time.Millisecond, func() { _ = first.Rollback() })
		must(t, s.LockTxWait(ctx, second, testserver.Patience(t), "a"))
		must(t, second.Commit())
		var n int
		must(t, l.db.QueryRow("SELECT COUNT(*) FROM notes").Scan(&n))
		if n != 1 {
			t.Error("the transaction was undone by a wait that ended")
		}
		must(t, s.LockTxWait(ctx, l.begin(), time.Millisecond, "x")) // no time to wait, and no need
		if err := s.LockTxWait(ctx, l.begin(), time.Millisecond, "x"); !errors.Is(err, rowlock.ErrHeld) {
			t.Errorf("a wait of a millisecond: %v", err)
		}
		if err := s.LockTxWait(ctx, l.begin(), 0, "a"); !errors.Is(err, rowlock.ErrInvalid) {
			t.Errorf("a wait of 0: %v", err)
		}
	})
}

// TestLockTxWaitsThatEndAtOnce: a KILL that comes at the moment of the grant hits
// neither the grant nor what the transaction does next.
func TestLockTxWaitsThatEndAtOnce(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, l *lab) {
		s, ctx := l.store(), patient(t)
		const d = 5 * time.Millisecond
		locked, held := 0, 0
		for range 100 {
			first, second := l.begin(), l.begin()
			must(t, s.LockTx(ctx, first, "a"))
			go func() {
				time.Sleep(d + time.Duration(rand.N(3000)-2000)*time.Microsecond)
				_ = first.Rollback()
			}()
			switch err := s.LockTxWait(ctx, second, d, "a"); {
			case err == nil:
				locked++
			case errors.Is(err, rowlock.ErrHeld):
				held++
			default:
				t.Fatal(err)
			}
			for range 3 {
				if _, err := second.Exec("DO 1"); err != nil {
					t.Fatalf("the next statement: %v", err)
				}
			}
			must(t, second.Rollback())
			_ = first.Rollback()
		}
		t.Logf("%d locked, %d held", locked, held)
	})
}

// TestLockTxEnds: a rollback frees the keys, and so does the death of the client.
func TestLockTxEnds(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, l *lab) {
		s, ctx := l.store(), patient(t)
		tx := l.begin()
		must(t, s.LockTx(ctx, tx, "a"))
		if free(t, l, s, "a") {
			t.Error("a locked key is free")
		}
		must(t, tx.Rollback())
		if !free(t, l, s, "a") {
			t.Error("a rollback does not free the key")
		}
		config := l.config.Clone()
		var line net.Conn
		config.DialFunc = func(ctx context.Context, network, addr string) (c net.Conn, err error) {
			line, err = new(net.Dialer).DialContext(ctx, network, addr)
			return line, err
		}
		tx, err := l.open(config).Begin()
		must(t, err)
		must(t, s.LockTx(ctx, tx, "a"))
		if free(t, l, s, "a") {
			t.Error("a locked key is free")
		}
		must(t, line.Close())
		eventually(t, "the key of a dead client is free", func() bool { return free(t, l, s, "a") })
	})
}

// TestLockTxWithALimit: a session with sql_select_limit gets all the keys, whatever
// their number.
func TestLockTxWithALimit(t *testing.T) {
	each(t, func(t *testing.T, l *lab) {
		s := l.store()
		for _, limit := range []int{0, 1, 2} {
			c, err := l.db.Conn(patient(t))
			must(t, err)
			defer c.Close()
			_, err = c.ExecContext(t.Context(), fmt.Sprintf("SET SESSION sql_select_limit=%d", limit))
			must(t, err)
			tx, err := c.BeginTx(patient(t), nil)
			must(t, err)
			defer tx.Rollback()
			for _, keys := range [][]string{{"a"}, {"a", "b", "c", "d"}} {
				if err := s.LockTx(patient(t), tx, keys...); err != nil {
					t.Errorf("limit %d, %d keys: %v", limit, len(keys), err)
				}
			}
			must(t, tx.Rollback())
			_, err = c.ExecContext(t.Context(), "SET SESSION sql_select_limit=DEFAULT")
			must(t, err)
		}
	})
}
