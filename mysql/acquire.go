package mysqllock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/mysql/internal/conn"
	"github.com/rowlock/rowlock/mysql/internal/row"
	"github.com/rowlock/rowlock/mysql/internal/session"
)

// Acquire is called by the Client that rowlock.New makes. It implements driver.Store.
func (s *Store) Acquire(ctx context.Context, reqs []driver.Request) ([]driver.Result, error) {
	var opened chan struct{} // nil: no session is opened ahead
	if f, ok := s.strategy.(*session.ForUpdate); ok && len(reqs) > 0 && !s.checked.Load() && !s.closed.Load() && !s.options.FewConnections {
		opened = f.Sessions.Fill(reqs[0].TTL)
	}
	if err := s.ready(ctx); err != nil || len(reqs) == 0 {
		return nil, err
	}
	if opened != nil {
		select {
		case <-opened:
		case <-ctx.Done(): // which the attempt sees
		}
	}
	return s.acquireVerified(ctx, reqs, s.strategy.Acquire)
}

// A statement that is kept waiting for all of its time waits for a transaction that has locked the key's row, or for a lock
// on the whole table: LOCK TABLES, FLUSH TABLES WITH READ LOCK, a dump or an ALTER TABLE that waits for its turn. The server
// answers both alike. In the second case the key may be free, and a caller who is told that somebody has it skips its job.

// acquireVerified makes an attempt. Where a statement was kept waiting meanwhile, an answer that names no holder stands only if
// the tables can be written to; that somebody has the key, only if it is so again: they may have been locked until just now.
func (s *Store) acquireVerified(ctx context.Context, reqs []driver.Request, attempt func(context.Context, []driver.Request) ([]driver.Result, error)) ([]driver.Result, error) {
	before := s.db.Blocked.Load()
	results, err := attempt(ctx, reqs)
	if s.db.Blocked.Load() == before {
		return results, err
	}
	if err != nil {
		if errors.Is(err, conn.ErrBlocked) {
			if locked := s.tablesLocked(ctx, reqs[0].Key); locked != nil && conn.Unsure(err) {
				err = conn.MaybeApplied("", locked)
			} else {
				err = cmp.Or(locked, err)
			}
		}
		return results, err
	}
	first := slices.IndexFunc(results, namesNoHolder)
	if first < 0 {
		return results, nil
	}
	locked := s.tablesLocked(ctx, reqs[first].Key)
	if locked == nil {
		s.again(ctx, reqs, results)
		s.withoutRow(ctx, reqs, results)
		return results, nil
	}
	for i, r := range results {
		if !namesNoHolder(r) {
			continue
		}
		results[i] = driver.Result{Err: locked}
		if r.Gated || r.Place > 0 || r.Err != nil && !driver.IsNotApplied(r.Err) { // something of it may stand, to be undone
			results[i].Err = conn.MaybeApplied("", locked)
		}
	}
	return results, nil
}

// again asks once more for the keys that somebody has who is not named.
func (s *Store) again(ctx context.Context, reqs []driver.Request, results []driver.Result) {
	var some []driver.Request
	var at []int
	for i, r := range results {
		if r.Status == driver.Held && namesNoHolder(r) && !r.Gated {
			some, at = append(some, reqs[i]), append(at, i)
		}
	}
	if len(some) == 0 {
		return
	}
	anew, err := s.strategy.Acquire(ctx, some)
	for n, i := range at {
		stood := results[i].Place > 0
		if err != nil {
			results[i] = driver.Result{Err: err}
		} else {
			results[i] = anew[n]
		}
		if stood && results[i].Err != nil {
			results[i].Err = conn.MaybeApplied("", results[i].Err)
		}
	}
}

// namesNoHolder reports whether an answer may come from a lock on the table. One that is to be asked for again will be.
func namesNoHolder(r driver.Result) bool {
	switch {
	case r.Apart:
		return false
	case r.Err != nil:
		return errors.Is(r.Err, conn.ErrBlocked) || errors.Is(r.Err, session.ErrVanishing)
	}
	return r.Status == driver.Pinned || r.Status == driver.Held && r.Left <= 0
}

// withoutRow corrects the answers that a key is pinned: only a row can be. What keeps a new one from being made is another
// session that has locked the place in the index where it belongs, or whose commit is slow. Where the rows cannot be read the answers
// stay.
func (s *Store) withoutRow(ctx context.Context, reqs []driver.Request, results []driver.Result) {
	var at []int
	for i, r := range results {
		if r.Err == nil && r.Status == driver.Pinned {
			at = append(at, i)
		}
	}
	if len(at) == 0 {
		return
	}
	table := s.strategy.Layout()[0].Table
	what := "acquire in table " + table
	_ = s.db.Step(ctx, s.db.Acquires, func(c *conn.Conn) error {
		there, err := conn.InParts(0, len(at), func(from, to int) (map[string]bool, error) {
			t := conn.NewText(100+64*(to-from)).Add("SELECT name FROM ", table, " FORCE INDEX (PRIMARY) WHERE name IN ")
			t.In(to-from, func(n int) { t.Key(reqs[at[from+n]].Key) })
			names, err := conn.Query(ctx, c, 0, t.String(), conn.ScanKey)
			set := make(map[string]bool)
			for _, name := range names {
				set[name] = true
			}
			return set, err
		})
		if err != nil {
			return err
		}
		for _, i := range at {
			if !there[reqs[i].Key] {
				results[i] = driver.Result{Err: &driver.Error{NotApplied: !results[i].Gated, Err: fmt.Errorf("mysql: %s: the row of %q could not be made: "+
					"another session has locked the place where it belongs, or its commit waits; nobody holds the key", what, reqs[i].Key)}}
			}
		}
		return nil
	})
}

// tablesLocked asks, without waiting for locked rows, whether the tables of the keys can be written to; nil: they can. A backup may
// also let everybody write and nobody commit (BACKUP STAGE BLOCK_COMMIT): so the last question is a write that commits.
func (s *Store) tablesLocked(ctx context.Context, key string) (locked error) {
	tables := s.strategy.Layout()
	what := "acquire in table " + tables[0].Table
	err := s.db.Step(ctx, s.db.Acquires, func(c *conn.Conn) error {
		for _, l := range tables {
			question := conn.NewText(100+len(key)).Add("SELECT 1 FROM ", l.Table, " WHERE name=").Key(key).Add(" LIMIT 1 FOR UPDATE SKIP LOCKED").String()
			_, err := conn.Query(ctx, c, 0, question, conn.ScanOne[conn.Int])
			if errors.Is(err, conn.ErrBlocked) {
				locked = row.TableLocked(what, false)
				return nil
			}
			if err != nil {
				return err
			}
		}
		_, err := c.Exec(ctx, s.db.Bound(len(conn.Bounds)-1), s.strategy.Touch())
		if errors.Is(err, conn.ErrBlocked) {
			locked, err = row.TableLocked(what, false), nil
		}
		return err
	})
	if err != nil {
		return conn.NotSent(what, err)
	}
	return locked
}
