package guarded

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"fmt"
	"reflect"

	"github.com/go-sql-driver/mysql"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/mysql/internal/callertx"
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

// guardable refuses what is no transaction, or one of XA, before anything is locked in it. doubt: whether a *sql.Tx is one
// of XA tells only its driver's part, which can be looked at while rows of it are open: see driverTold.
func guardable(ctx context.Context, tx callertx.Tx) (doubt bool, err error) {
	err = callertx.Check(ctx, tx)
	switch {
	case conn.Number(err) == erXAState:
		return false, fmt.Errorf("%w: %w", errXA, err)
	case err != nil:
		return false, err
	case sqlTxOf(tx).IsValid():
		return true, nil
	}
	return false, noXA(ctx, tx)
}

// noXA refuses an XA transaction. Only XA END tells whether there is one, with an xid that is
// nobody's: it changes nothing, and its error says in which state the session is.
func noXA(ctx context.Context, tx callertx.Tx) error {
	_, err := tx.ExecContext(ctx, "XA END x'726f776c6f636b3a20697320746869732058413f'")
	switch conn.Number(err) {
	case erXAState: // where it has ended, the guard itself is refused
		return nil
	case erUnknownXid:
		return errXA
	case callertx.ErNotPrepared: // MySQL
		return fmt.Errorf("%w: the %T prepares its statements, so it cannot be asked whether it is an XA transaction: pass the *sql.Tx of a driver that does not: %w", driver.ErrNotSupported, tx, err)
	}
	return callertx.Error(err)
}

var errXA = fmt.Errorf("%w: it is an XA transaction, whose guard would end at XA PREPARE: use an ordinary transaction, or LockTx", driver.ErrNotSupported)

var (
	sqlTx       = reflect.TypeFor[sql.Tx]()
	driverTx    = reflect.TypeFor[sqldriver.Tx]()
	mysqlDriver = reflect.TypeFor[mysql.MySQLError]().PkgPath()
)

// sqlTxOf is the *sql.Tx that the handle is, or embeds, as *sqlx.Tx does; else the zero Value.
func sqlTxOf(tx callertx.Tx) reflect.Value { return embeddedTx(reflect.ValueOf(tx), 16) }

// embeddedTx looks at one field; deep bounds the look.
func embeddedTx(v reflect.Value, deep int) reflect.Value {
	for ; deep > 0 && (v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface); deep-- {
		v = v.Elem()
	}
	if v.Kind() != reflect.Struct {
		return reflect.Value{}
	}
	if v.Type() == sqlTx {
		return v
	}
	for i := range v.NumField() {
		if f := v.Type().Field(i); f.Anonymous && f.Type.Implements(driverTx) {
			if found := embeddedTx(v.Field(i), deep); found.IsValid() {
				return found
			}
		}
	}
	return reflect.Value{}
}

// driverTold is a destination of Scan, and asks whether go-sql-driver has begun the transaction, by START
// TRANSACTION, which needs no statement. It looks below *sql.Tx, in the driver, in any field that is a transaction: drivers wrap
// another, for example to trace it. A *sql.Tx forgets that part when it ends, which happens at any moment if its context ends.
// Not within a Scan of its rows: these are closed first, and that waits for the Scan.
type driverTold struct {
	tx       callertx.Tx
	ordinary bool
}

// Scan takes any value.
func (o *driverTold) Scan(any) error {
	o.ordinary = Ordinary(o.tx)
	return nil
}

// Ordinary reports whether go-sql-driver has begun the transaction, which must not end meanwhile.
func Ordinary(tx callertx.Tx) bool {
	v := sqlTxOf(tx)
	return v.IsValid() && ofDriver(v, 16)
}

// ofDriver looks at one field; deep bounds the look.
func ofDriver(v reflect.Value, deep int) bool {
	for ; deep > 0 && (v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface); deep-- {
		if v.Kind() == reflect.Pointer && v.Type().Elem().PkgPath() == mysqlDriver && v.Type().Implements(driverTx) {
			return true
		}
		v = v.Elem()
	}
	if v.Kind() != reflect.Struct {
		return false
	}
	for i := range v.NumField() {
		if v.Type().Field(i).Type.Implements(driverTx) && ofDriver(v.Field(i), deep) {
			return true
		}
	}
	return false
}
