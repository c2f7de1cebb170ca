package mysqllock

import (
	"context"
	"strings"

	"github.com/rowlock/rowlock/driver"
)

// look finds out without waiting which of the open keys another transaction
// blocks. It answers those that are held (a held key never waits for a guard) and
// those that are pinned, and returns the rest: free rows that nobody has locked,
// and keys without a row.
func (a *attempt) look(ctx context.Context, c *conn, open []int) ([]int, error) {
	rows, err := a.rows(ctx, c, len(open), func(i int) string { return a.reqs[open[i]].Key })
	if err != nil {
		return open, err
	}
	rest := open[:0:0]
	var free []int
	var entries []row
	for _, i := range open {
		r, ok := rows[a.reqs[i].Key]
		switch {
		case !ok:
			rest = append(rest, i)
		case r.left > 0:
			a.settle(i, rows)
		default:
			free = append(free, i)
			entries = append(entries, r)
		}
	}
	if len(free) == 0 {
		return rest, nil
	}
	unlocked, err := a.unlocked(ctx, c, entries)
	if err != nil {
		return open, err
	}
	for _, i := range free {
		if unlocked[a.reqs[i].Key] {
			rest = append(rest, i)
		} else {
			a.results[i] = driver.Result{Status: driver.Pinned}
		}
	}
	return rest, nil
}

// unlocked tells which of the rows no transaction has locked, by their entries in
// the guard index. What is locked is skipped, so the question does not wait:
// https://dev.mysql.com/doc/refman/9.7/en/innodb-locking-reads.html (SKIP LOCKED);
// MariaDB has it since 10.6. A row that another client is just taking over looks
// locked too.
func (l *leases) unlocked(ctx context.Context, c *conn, rows []row) (map[string]bool, error) {
	t := make(text, 0, 200+160*len(rows))
	t = t.add("SELECT name FROM ", l.table, " FORCE INDEX (guard) WHERE (", strings.Join(l.guard, ","), ") IN ")
	t = t.in(len(rows), func(t text, i int) text {
		t = t.add("(").us64(rows[i].token).add(",").key(rows[i].key)
		if len(l.guard) == 3 {
			t = t.add(",").lit(rows[i].id[:])
		}
		return t.add(")")
	})
	return l.keySet(ctx, c, string(t.add(" FOR UPDATE SKIP LOCKED")))
}

// writable tells which of the keys' rows no transaction has locked.
func (l *leases) writable(ctx context.Context, c *conn, holds []driver.Hold) (map[string]bool, error) {
	t := make(text, 0, 100+64*len(holds))
	t = t.add("SELECT name FROM ", l.table, " FORCE INDEX (PRIMARY) WHERE name IN ")
	t = t.in(len(holds), func(t text, i int) text { return t.key(holds[i].Key) })
	return l.keySet(ctx, c, string(t.add(" FOR UPDATE SKIP LOCKED")))
}

func (l *leases) keySet(ctx context.Context, c *conn, question string) (map[string]bool, error) {
	keys, err := query(ctx, c, 0, question, scanKey)
	if err != nil {
		return nil, err
	}
	set := make(map[string]bool, len(keys))
	for _, k := range keys {
		set[k] = true
	}
	return set, nil
}

// takeAlone waits for the right to use the one acquire connection that carries
// what may be slow: pinned keys, reaping and force.
func (s *Store) takeAlone(ctx context.Context) error {
	select {
	case s.alone <- struct{}{}:
		return nil
	case <-ctx.Done():
		return notSent("wait for a connection", ctx.Err())
	}
}

func (s *Store) giveAlone() { <-s.alone }

// slow runs f on the acquire connection for what may be slow.
func (s *Store) slow(ctx context.Context, f func(*conn) error) error {
	if err := s.takeAlone(ctx); err != nil {
		return err
	}
	defer s.giveAlone()
	return s.step(ctx, s.acquires, f)
}
