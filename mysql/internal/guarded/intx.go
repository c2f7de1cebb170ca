package guarded

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/guards"
	"github.com/rowlock/rowlock/mysql/internal/callertx"
	"github.com/rowlock/rowlock/mysql/internal/conn"
)

// InTx is that of mysqllock.
func (g *Transactions) InTx(ctx context.Context, leases guards.Leases, fn func(ctx context.Context, tx *sql.Tx) error) error {
	if fn == nil {
		return fmt.Errorf("transaction: %w: the function is nil", driver.ErrInvalid)
	}
	t, err := g.begin(ctx, leases, "")
	if err != nil {
		return err
	}
	defer t.end()
	if err := t.run(fn); err != nil {
		return err
	}
	err = t.commit()
	if u := (undecided{}); errors.As(err, &u) {
		err = fmt.Errorf("%w: %w", driver.ErrUnknownOutcome, u.error)
	}
	return wrap("guarded transaction of", t.holds.First.Key, err)
}

// run calls fn. Its error is marked where the transaction can be run again.
func (t *transaction) run(fn func(context.Context, *sql.Tx) error) error {
	t.c.Used = true
	err := fn(t.work, t.tx)
	if err == nil {
		return nil
	}
	if err = callertx.Error(err); conn.CannotServe[conn.Number(err)] {
		err = t.judge(err)
	}
	if lost := t.leases.Err(); errors.Is(lost, rowlock.ErrLost) && !errors.Is(err, rowlock.ErrLost) {
		err = errors.Join(err, lost)
	}
	return err
}
