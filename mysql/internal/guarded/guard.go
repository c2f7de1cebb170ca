package guarded

import (
	"cmp"
	"context"
	"fmt"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/guards"
	"github.com/rowlock/rowlock/mysql/internal/callertx"
	"github.com/rowlock/rowlock/mysql/internal/conn"
)

// A guarded transaction has a shared lock on one entry of the index named guard:
// the one with the lease's token. The next grant of the key must raise the token,
// so it changes that entry and waits for the transaction; everybody else who writes
// the row (renewals, refused acquires, releases) does not touch the index.
//
// The lock is on the entry only if the index has everything that the statement
// reads, and if the statement names every column of the unique index:
// https://dev.mysql.com/doc/refman/9.7/en/innodb-locks-set.html

// Guard is that of mysqllock.
func (g *Transactions) Guard(ctx context.Context, tx callertx.Tx, leases guards.Leases) error {
	ctx, free := upTo(ctx, leases)
	defer free()
	_, err := g.guard(ctx, tx, leases, "")
	return err
}

// upTo is ctx, and ends with each of the leases too. In a pool that is used up the
// transactions that wait for a connection have those that they wait for, so none
// may wait without an end of its own.
func upTo(ctx context.Context, leases guards.Leases) (context.Context, context.CancelFunc) {
	within, free := context.WithCancel(ctx) // a lease that lives on forgets it
	return leases.Context(within), free
}

// guard is Guard, which also asks whether a run has its mark. Its caller gives it a
// context that ends with the leases: see upTo.
func (g *Transactions) guard(ctx context.Context, tx callertx.Tx, leases guards.Leases, run string) (State, error) {
	hs, err := g.guarding(ctx, leases)
	if err != nil {
		return State{}, err
	}
	what := guardOf(hs)
	doubt, err := guardable(ctx, tx)
	if err != nil {
		return State{}, named(what, orEnded(leases, err))
	}
	// The plain read comes first, because a locking read that finds nothing can lock
	// the right end of the index, and with it every acquire of a new key.
	st, err := g.ReadHolds(ctx, hs, run)
	if err == nil && !st.marked {
		err = cmp.Or(st.Lost, leases.Err())
	}
	if err != nil || st.marked {
		return st, named(what, orEnded(leases, callertx.PoolConflict(err)))
	}
	var got Locked
	if st.in, err = callertx.TablePrefix(ctx, tx, st.Database); err == nil {
		got, err = g.Lock(ctx, tx, st.in, hs, "")
	}
	if err == nil && got.All && doubt && !got.Ordinary {
		err = noXA(ctx, tx)
	}
	switch n := conn.Number(err); {
	case conn.SchemaErrors[n], n == conn.ErNoDatabase, n == conn.ErTableDenied: // the plain read found the table
		err = fmt.Errorf("%w: the transaction does not reach the lock tables; it must be on the Store's server, and its user may read them: %w", driver.ErrInvalid, err)
	case n == erXAState:
		err = fmt.Errorf("%w: %w", errXA, err)
	case err == nil && !got.All:
		err = g.whyNot(ctx, hs)
	}
	if err == nil {
		err = leases.Err() // one may have ended meanwhile
	}
	return st, named(what, orEnded(leases, callertx.PoolConflict(err)))
}

// guarding checks what a guard is given, before anything is sent.
func (g *Transactions) guarding(ctx context.Context, leases guards.Leases) (guards.Holds, error) {
	if err := leases.Check(); err != nil {
		return guards.Holds{}, err
	}
	if most := g.strategy.Limits().Batch; len(leases) > most {
		return guards.Holds{}, fmt.Errorf("guard: %w: %d leases: at most %d are guarded together", driver.ErrInvalid, len(leases), most)
	}
	if err := g.ready(ctx); err != nil {
		return guards.Holds{}, orEnded(leases, callertx.PoolConflict(err))
	}
	return leases.Begin(g.store)
}

// Locked is the answer to a guard.
type Locked struct {
	All      bool   // false: one of the entries is not there any more
	Ordinary bool   // go-sql-driver has begun the transaction: see driverTold
	Said     string // the value of the expression that was asked for
}

// Lock is the guard: it locks the entries of the holds in the guard indexes, until the
// transaction ends. in is what stands before the names of tables in its session; ask is an expression
// that is read with it; empty: none.
func (g *Transactions) Lock(ctx context.Context, tx callertx.Tx, in string, hs guards.Holds, ask string) (got Locked, err error) {
	var reads []conn.Statement
	for _, h := range hs.All {
		l, _ := g.strategy.Guards(h)
		reads = append(reads, l.GuardReads(h, len(hs.All) == 1, func(table string) string { return in + table })...)
	}
	want := len(reads)
	if ask != "" {
		reads = append(reads, func(t *conn.Text) { t.Add("SELECT ", ask) })
	}
	g.db.Statements.Add(1)
	rows, err := tx.QueryContext(ctx, allOf(reads))
	if err != nil {
		return Locked{}, callertx.SessionError(callertx.Error(err))
	}
	defer rows.Close()
	told := driverTold{tx: tx}
	found := 0
	for rows.Next() {
		var err error
		if found++; found == 1 {
			err = rows.Scan(&told)
		}
		if ask != "" { // it is the last
			err = cmp.Or(err, rows.Scan(&got.Said))
		}
		if err != nil {
			return Locked{}, callertx.Error(err)
		}
	}
	if err := rows.Err(); err != nil {
		return Locked{}, callertx.Error(err)
	}
	if ask != "" {
		found--
	}
	got.All, got.Ordinary = found == want, told.ordinary
	return got, callertx.Error(rows.Close())
}

// allOf is one statement for several reads. Each names one entry of a unique index; a
// condition with OR or IN would be a range, and lock gaps.
func allOf(reads []conn.Statement) string {
	if len(reads) == 1 {
		return reads[0].Literal()
	}
	t := conn.NewText(300 * len(reads))
	for i, read := range reads {
		if i > 0 {
			t.Add(" UNION ALL ")
		}
		t.Add("(").Part(read).Add(")")
	}
	return t.Add(" LIMIT ").Int(int64(len(reads))).String() // or sql_select_limit would count them
}
