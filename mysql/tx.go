package mysqllock

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"reflect"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/mysql/internal/conn"
)

// Tx is a transaction of the caller's: a *sql.Tx, what embeds one (*sqlx.Tx,
// bun.Tx), or another handle on one connection with an open transaction, such as a
// *sql.Conn after START TRANSACTION. With gorm it is tx.Statement.ConnPool.
//
// A pool (*sql.DB, *sqlx.DB) has these methods too, and is refused: each of its
// statements may go to another connection, so nothing would be guarded or locked.
// An XA transaction can be locked by LockTx, but not guarded: see Guard.
type Tx interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

const (
	erNoSavepoint = 1305 // SAVEPOINT ... does not exist
	erNotPrepared = 1295 // not supported in the prepared statement protocol: MySQL says so of SAVEPOINT
)

// inTransaction reports whether tx is a transaction, by an error that matches
// ErrInvalid where it is none. What can commit and roll back is one. Of a handle
// that cannot, for example a *sql.Conn, the type tells nothing, so the server is
// asked, at the price of two trips: it forgets a savepoint at the end of its
// statement unless a transaction is open or autocommit is off.
//
//	https://dev.mysql.com/doc/refman/9.7/en/savepoint.html
//
// The answer is exact, needs no privilege and changes nothing in the transaction.
// (MySQL has no variable that tells; MariaDB has @@in_transaction.) A pool that the
// type does not give away is found out too: none of its connections is in a
// transaction.
func inTransaction(ctx context.Context, tx Tx) error {
	if v := reflect.ValueOf(tx); !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
		return fmt.Errorf("%w: the transaction is nil", driver.ErrInvalid)
	}
	switch tx.(type) {
	case interface{ Stats() sql.DBStats }:
		return fmt.Errorf("%w: a %T is a pool, no transaction: begin one and pass that", driver.ErrInvalid, tx)
	case interface {
		Commit() error
		Rollback() error
	}:
		return nil
	}
	if _, err := tx.ExecContext(ctx, "SAVEPOINT rowlock_open"); conn.Number(err) == erNotPrepared { // MySQL
		return fmt.Errorf("%w: the %T prepares its statements and cannot commit: it is a pool, or hides a transaction: pass the transaction itself: %w", driver.ErrInvalid, tx, err)
	} else if err != nil {
		return txError(err)
	}
	_, err := tx.ExecContext(ctx, "RELEASE SAVEPOINT rowlock_open")
	if conn.Number(err) == erNoSavepoint {
		return fmt.Errorf("%w: the %T has no open transaction: begin one before", driver.ErrInvalid, tx)
	}
	return txError(err)
}

// txError says what an error of a statement in the caller's transaction means to
// the caller: ErrConflict where the transaction can be run again from its
// beginning. What the server or database/sql said is wrapped.
func txError(err error) error {
	if errors.Is(err, driver.ErrConflict) {
		return err
	}
	switch conn.Number(err) {
	case conn.ErDeadlock, conn.ErLockWait, conn.ErSnapshot, conn.ErGroupRollback, conn.ErNoWait:
		return fmt.Errorf("%w: %w", driver.ErrConflict, err)
	}
	return err
}
