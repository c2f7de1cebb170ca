// Package callertx sends statements in a transaction of the caller's: is it one at all, what may the
// statements depend on in its session, and what do their errors mean to the caller. Packages guarded and
// locktx import it.
package callertx

import (
	"context"
	"database/sql"
	"fmt"
	"reflect"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/mysql/internal/conn"
)

// Tx is mysqllock.Tx: one connection with an open transaction.
type Tx interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// Numbers of errors that MySQL and MariaDB share.
const (
	ErNoSavepoint = 1305 // SAVEPOINT ... does not exist
	ErNotPrepared = 1295 // not supported in the prepared statement protocol: MySQL says so of SAVEPOINT
)

// Check reports whether tx is a transaction, by an error that matches
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
func Check(ctx context.Context, tx Tx) error {
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
	if _, err := tx.ExecContext(ctx, "SAVEPOINT rowlock_open"); conn.Number(err) == ErNotPrepared { // MySQL
		return fmt.Errorf("%w: the %T prepares its statements and cannot commit: it is a pool, or hides a transaction: pass the transaction itself: %w", driver.ErrInvalid, tx, err)
	} else if err != nil {
		return Error(err)
	}
	_, err := tx.ExecContext(ctx, "RELEASE SAVEPOINT rowlock_open")
	if conn.Number(err) == ErNoSavepoint {
		return fmt.Errorf("%w: the %T has no open transaction: begin one before", driver.ErrInvalid, tx)
	}
	return Error(err)
}
