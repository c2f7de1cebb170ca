package mysqllock

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"fmt"
	"reflect"

	"github.com/go-sql-driver/mysql"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/mysql/internal/conn"
)

// A guard is a lock on an entry that the transaction does not change. Such a lock does not outlive
// XA PREPARE: MariaDB gives it back at once, MySQL at once where the branch has written nothing, and
// no server has it after a crash. So XA COMMIT could follow a newer grant.
//
//	https://mariadb.com/kb/en/xa-transactions/
//	https://dev.mysql.com/doc/refman/9.7/en/xa-restrictions.html

const (
	erUnknownXid = 1397 // XAER_NOTA: an XA transaction is open, and has another xid
	erXAState    = 1399 // XAER_RMFAIL: there is no XA transaction, or one that takes no more statements
)

// guardable refuses what is no transaction, or one of XA.
func guardable(ctx context.Context, tx Tx) error {
	err := inTransaction(ctx, tx)
	switch {
	case conn.Number(err) == erXAState:
		return fmt.Errorf("%w: %w", errXA, err)
	case err != nil:
		return err
	}
	return noXA(ctx, tx)
}

// noXA refuses an XA transaction. Only XA END tells whether there is one, with an xid that is
// nobody's: it changes nothing, and its error says in which state the session is. A transaction
// that go-sql-driver has begun is none, and costs no question.
func noXA(ctx context.Context, tx Tx) error {
	if ordinary(reflect.ValueOf(tx), false, 16) {
		return nil
	}
	_, err := tx.ExecContext(ctx, "XA END x'726f776c6f636b3a20697320746869732058413f'")
	switch conn.Number(err) {
	case erXAState: // where it has ended, the guard itself is refused
		return nil
	case erUnknownXid:
		return errXA
	case erNotPrepared: // MySQL
		return fmt.Errorf("%w: the %T prepares its statements, so it cannot be asked whether it is an XA transaction: pass the *sql.Tx of a driver that does not: %w", driver.ErrNotSupported, tx, err)
	}
	return txError(err)
}

var errXA = fmt.Errorf("%w: it is an XA transaction, whose guard would end at XA PREPARE: use an ordinary transaction, or LockTx", driver.ErrNotSupported)

var (
	sqlTx       = reflect.TypeFor[sql.Tx]()
	driverTx    = reflect.TypeFor[sqldriver.Tx]()
	mysqlDriver = reflect.TypeFor[mysql.MySQLError]().PkgPath()
)

// ordinary reports whether go-sql-driver has begun the transaction, by START TRANSACTION. It is
// looked for in what the handle embeds and can commit and roll back, as *sqlx.Tx does with *sql.Tx,
// and below *sql.Tx, in the driver, in any such field, where drivers wrap another, for example to
// trace it. deep bounds the look.
func ordinary(v reflect.Value, below bool, deep int) bool {
	for ; deep > 0 && (v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface); deep-- {
		if v.Kind() == reflect.Pointer && v.Type().Elem().PkgPath() == mysqlDriver && v.Type().Implements(driverTx) {
			return true
		}
		v = v.Elem()
	}
	if v.Kind() != reflect.Struct {
		return false
	}
	below = below || v.Type() == sqlTx
	for i := range v.NumField() {
		if f := v.Type().Field(i); (below || f.Anonymous) && f.Type.Implements(driverTx) && ordinary(v.Field(i), below, deep) {
			return true
		}
	}
	return false
}
