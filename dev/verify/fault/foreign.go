package fault

import (
	"context"
	"database/sql"
	"fmt"
	"sync"
	"time"

	"github.com/rowlock/rowlock/dev/verify/timed"
)

func foreignFaults() []Fault {
	const loses = "everything; leases of these keys may be lost, with the signal. Other keys are not delayed by more than 100 ms (P15)"
	return []Fault{
		Fault{Name: "rows-locked", Kinds: sqlKinds, Weight: 3,
			What:   "another program's transaction locks the rows of hot keys, shared or exclusively",
			Expect: loses}.by(rowsLocked),
		Fault{Name: "gaps-locked", Kinds: sqlKinds, Weight: 2,
			What:   "another program's transaction locks all rows and the gaps between them (REPEATABLE READ), for up to half a TTL",
			Expect: "everything; leases may be lost, with the signal"}.by(gapsLocked),
		Fault{Name: "deadlocks", Kinds: sqlKinds, Weight: 3,
			What:   "other transactions lock two hot keys each, in opposite orders",
			Expect: "everything; no deadlock reaches the caller, those of its own transaction excepted (P8)"}.by(deadlocks),
		Fault{Name: "long-transaction", Kinds: sqlKinds, Weight: 1,
			What:   "a transaction with an old snapshot of the lock tables stays open, and has written elsewhere",
			Expect: "everything, and no lease is lost by it"}.by(longTransaction),
		Fault{Name: "table-locked", Kinds: sqlKinds, Weight: 1,
			What:   "LOCK TABLES … WRITE, for up to a quarter of a TTL",
			Expect: "everything; leases may be lost, with the signal"}.by(tableLocked),
		Fault{Name: "writes-stopped", Kinds: sqlKinds, Weight: 1,
			What:   "FLUSH TABLES WITH READ LOCK, as a backup does, for up to half a TTL",
			Expect: "everything; leases may be lost, with the signal"}.by(writesStopped),
	}
}

// visitor does something on a connection of another program. The server may be away
// or end the session meanwhile, and a lock may not be had: that is no failure of the
// fault, and the connection is gone at the end in any case.
func (s *scene) visitor(ctx context.Context, do func(ctx context.Context, exec func(query string, args ...any) error) error) error {
	ctx, cancel := context.WithTimeout(ctx, 4*s.TTL)
	defer cancel()
	c, err := s.DB.Conn(ctx)
	if err != nil {
		return err
	}
	defer discard(c)
	exec := func(query string, args ...any) error {
		rows, err := c.QueryContext(ctx, query, args...)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var _ sql.RawBytes // they are locked by now
		}
		return rows.Err()
	}
	if err := exec("SET SESSION innodb_lock_wait_timeout=1, lock_wait_timeout=1"); err != nil {
		return err
	}
	return do(ctx, exec)
}

// describe says what it was, and why it came to nothing.
func describe(err error, format string, args ...any) string {
	text := fmt.Sprintf(format, args...)
	if err != nil {
		text += fmt.Sprintf(" (%v)", err)
	}
	return text
}

// space is one of the lock spaces, one of its tables and some of its keys.
func (s *scene) space() (table string, keys []string, ok bool) {
	if len(s.Spaces) == 0 {
		return "", nil, false
	}
	space := s.Spaces[s.rand.IntN(len(s.Spaces))]
	if len(space.Tables) == 0 || len(space.Keys) == 0 {
		return "", nil, false
	}
	return space.Tables[s.rand.IntN(len(space.Tables))], some(s, space.Keys), true
}

func rowsLocked(ctx context.Context, s *scene) (string, error) {
	table, keys, ok := s.space()
	if !ok {
		return "", nil
	}
	mode := []string{"FOR UPDATE", "LOCK IN SHARE MODE"}[s.rand.IntN(2)]
	d := s.between(20*time.Millisecond, s.TTL*3/2)
	err := s.visitor(ctx, func(ctx context.Context, exec func(string, ...any) error) error {
		if err := exec("BEGIN"); err != nil {
			return err
		}
		for _, k := range keys { // one by one: a search for several may lock the whole of a small table
			if err := exec("SELECT name FROM "+table+" WHERE name=? "+mode, []byte(k)); err != nil {
				return err
			}
		}
		timed.Rest(ctx, d)
		return exec("ROLLBACK")
	})
	return describe(err, "%d keys of %s %s for %v", len(keys), table, mode, d), nil
}

func gapsLocked(ctx context.Context, s *scene) (string, error) {
	table, _, ok := s.space()
	if !ok {
		return "", nil
	}
	d := s.between(20*time.Millisecond, s.TTL/2)
	return s.keepFor(ctx, d, table, "ROLLBACK", "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ", "BEGIN",
		"SELECT name FROM "+table+" WHERE name>='' FOR UPDATE")
}

func deadlocks(ctx context.Context, s *scene) (string, error) {
	table, _, ok := s.space()
	if !ok {
		return "", nil
	}
	keys := s.Spaces[0].Keys
	for _, space := range s.Spaces {
		for _, t := range space.Tables {
			if t == table {
				keys = space.Keys
			}
		}
	}
	if len(keys) < 2 {
		return "", nil
	}
	order := s.rand.Perm(len(keys))
	pair := [2]string{keys[order[0]], keys[order[1]]}
	d, rest := s.while(), s.between(0, 5*time.Millisecond)
	var mu sync.Mutex
	var all sync.WaitGroup
	tries, hits := 0, 0
	for side := range 2 {
		all.Go(func() {
			for end := time.Now().Add(d); time.Now().Before(end) && ctx.Err() == nil; timed.Rest(ctx, rest) {
				err := s.visitor(ctx, func(ctx context.Context, exec func(string, ...any) error) error {
					if err := exec("BEGIN"); err != nil {
						return err
					}
					for i := range 2 {
						if err := exec("SELECT name FROM "+table+" WHERE name=? FOR UPDATE", []byte(pair[side^i])); err != nil {
							return err
						}
						timed.Rest(ctx, time.Millisecond)
					}
					return exec("ROLLBACK")
				})
				mu.Lock()
				tries++
				if err != nil {
					hits++
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	return fmt.Sprintf("%s: %d of %d transactions failed in %v", table, hits, tries, d), nil
}

func longTransaction(ctx context.Context, s *scene) (string, error) {
	table, _, ok := s.space()
	if !ok {
		return "", nil
	}
	d := s.between(s.TTL/2, 2*s.TTL)
	return s.keepFor(ctx, d, table, "ROLLBACK",
		"CREATE DATABASE IF NOT EXISTS fault",
		"CREATE TABLE IF NOT EXISTS fault.well (n BIGINT AUTO_INCREMENT PRIMARY KEY)",
		"SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",
		"START TRANSACTION WITH CONSISTENT SNAPSHOT",
		"SELECT COUNT(*) FROM "+table,
		"INSERT INTO fault.well VALUES ()")
}

func tableLocked(ctx context.Context, s *scene) (string, error) {
	table, _, ok := s.space()
	if !ok {
		return "", nil
	}
	d := s.between(20*time.Millisecond, s.TTL/4)
	return s.keepFor(ctx, d, table, "UNLOCK TABLES", "LOCK TABLES "+table+" WRITE")
}

func writesStopped(ctx context.Context, s *scene) (string, error) {
	d := s.between(20*time.Millisecond, s.TTL/2)
	return s.keepFor(ctx, d, "all tables", "UNLOCK TABLES", "FLUSH TABLES WITH READ LOCK")
}

// keepFor runs statements in one session, keeps what they took for d, and gives it back
// by end.
func (s *scene) keepFor(ctx context.Context, d time.Duration, what, end string, statements ...string) (string, error) {
	err := s.visitor(ctx, func(ctx context.Context, exec func(string, ...any) error) error {
		for _, text := range statements {
			if err := exec(text); err != nil {
				return err
			}
		}
		timed.Rest(ctx, d)
		return exec(end)
	})
	return describe(err, "%s for %v", what, d), nil
}
