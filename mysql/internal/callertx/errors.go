package callertx

import (
	"context"
	"errors"
	"fmt"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/mysql/internal/conn"
)

const (
	erNotLocked = 1100 // the session has LOCK TABLES, and the table is not among them
	erTemporary = 1137 // Can't reopen table: a temporary table is named twice
)

// Error says what an error of a statement in the caller's transaction means to
// the caller: ErrConflict where the transaction can be run again from its
// beginning. What the server or database/sql said is wrapped.
func Error(err error) error {
	if errors.Is(err, driver.ErrConflict) {
		return err
	}
	switch conn.Number(err) {
	case conn.ErDeadlock, conn.ErLockWait, conn.ErSnapshot, conn.ErGroupRollback, conn.ErNoWait:
		return fmt.Errorf("%w: %w", driver.ErrConflict, err)
	}
	return err
}

// SessionError says what an error of a statement of ours tells of the caller's session.
func SessionError(err error) error {
	switch conn.Number(err) {
	case erNotLocked:
		return fmt.Errorf("%w: the transaction's session has LOCK TABLES, so it reaches no other table: UNLOCK TABLES before: %w", driver.ErrInvalid, err)
	case erTemporary:
		return fmt.Errorf("%w: a temporary table of the transaction's session hides a lock table: drop it: %w", driver.ErrInvalid, err)
	}
	return err
}

// PoolConflict marks the error of a wait for the pool: transactions that use it up
// stand in each other's way.
func PoolConflict(err error) error {
	if errors.Is(err, conn.ErrPoolBusy) && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled) {
		return fmt.Errorf("%w: roll back, so that its connection is free: %w", driver.ErrConflict, err)
	}
	return err
}
