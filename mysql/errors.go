package mysqllock

import (
	sqldriver "database/sql/driver"
	"errors"
	"fmt"

	"github.com/go-sql-driver/mysql"

	"github.com/rowlock/rowlock/driver"
)

// Error numbers of the server that mean something to us.
// MySQL 9.7 error reference: https://dev.mysql.com/doc/mysql-errors/9.7/en/server-error-reference.html
// MariaDB: https://mariadb.com/kb/en/mariadb-error-code-reference/
const (
	erLockWait       = 1205 // waited too long for a lock; the statement is undone
	erDeadlock       = 1213 // chosen as the victim of a deadlock, or a conflict between nodes; undone
	erSnapshot       = 1020 // MariaDB with innodb_snapshot_isolation: the row changed meanwhile; undone
	erHook           = 3100 // a plugin (group replication) refused the commit; undone
	erGroupRollback  = 3101 // group replication refused the commit; undone
	erKilled         = 1317 // KILL QUERY; undone
	erPacket         = 1153 // larger than max_allowed_packet; not read
	erIdle           = 4031 // the server had closed the idle connection before our statement came
	erNoDatabase     = 1049
	erDatabaseDenied = 1044
	erTableDenied    = 1142
	erNoTable        = 1146
	erNoColumn       = 1054
	erNoIndex        = 1176
	erNoSuchThread   = 1094
	erKillDenied     = 1095
	erSpecificAccess = 1227
)

// elsewhere are the errors after which another connection may reach a server that
// can serve: read-only after a failover, a Galera node that is not ready, a member
// of group replication that was shut out. The server changed nothing.
var elsewhere = map[uint16]bool{1047: true, 1290: true, 1792: true, 1836: true, erHook: true, erGroupRollback: true}

// proven are the errors by which the server says that the statement changed
// nothing. Any other error leaves that open.
var proven = map[uint16]bool{
	erLockWait: true, erDeadlock: true, erSnapshot: true, erGroupRollback: true, erHook: true, erKilled: true, erPacket: true, erIdle: true,
	1047: true,                         // Galera: the node is not ready
	1290: true, 1792: true, 1836: true, // read-only
	1969: true, 3024: true, // max_statement_time, max_execution_time
	1040: true, 1203: true, 1226: true, // too many connections: never got in
}

// lasting are the errors that come back whenever one tries, with what to do.
var lasting = map[uint16]string{
	1044: "the user may not use this database: grant it SELECT, INSERT, UPDATE and DELETE on the lock tables",
	1045: "the server refused the user or password: correct the DSN",
	1049: "the database does not exist: correct the DSN or create it",
	1046: "the DSN names no database",
	1142: "the user may not use this table: grant SELECT, INSERT, UPDATE and DELETE on the lock tables",
	1143: "the user may not use this column: grant SELECT, INSERT, UPDATE and DELETE on the lock tables",
	1698: "the server refused the user: correct the DSN",
	1251: "the server and the driver share no way to log in",
	1820: "the user's password has expired",
	1862: "the user's password has expired",
	3118: "the user is locked",
	3159: "the server wants TLS: set tls in the DSN",
	1064: "the server does not understand the statement: it is no MySQL 8.0 or MariaDB 10.6, or something in between rewrites statements",
	1193: "the server lacks a variable: it is no MySQL 8.0 or MariaDB 10.6",
	1227: "the user lacks a privilege",

	erNoTable:  "a lock table is missing: run Migrate",
	erNoColumn: "a lock table lacks a column, it was made by an older version: run Migrate",
	erNoIndex:  "a lock table lacks an index, it was made by an older version: run Migrate",
}

// schemaErrors say that the tables do not fit.
var schemaErrors = map[uint16]bool{erNoTable: true, erNoColumn: true, erNoIndex: true}

// errBlocked: another transaction kept the statement waiting for longer than its
// bound, so it was ended. Nothing was changed.
var errBlocked = errors.New("another transaction holds a lock that the statement needs")

// number is the server's error number, or 0 for an error that is not the server's.
func number(err error) uint16 {
	var e *mysql.MySQLError
	if errors.As(err, &e) {
		return e.Number
	}
	return 0
}

// classify says once what an error means: see driver.Error. what names the step
// and the table.
func classify(what string, err error) error {
	if err == nil {
		return nil
	}
	var known *driver.Error
	if errors.As(err, &known) {
		return err
	}
	n := number(err)
	hint := lasting[n]
	e := &driver.Error{Lasting: hint != "", NotApplied: proven[n] || hint != "", Silent: errors.Is(err, errSilent)}
	switch {
	case errors.Is(err, errBlocked), errors.Is(err, errTooLarge), errors.Is(err, sqldriver.ErrBadConn):
		e.NotApplied = true // ErrBadConn is the driver's word for "nothing was sent"
	case errors.Is(err, driver.ErrSchema), errors.Is(err, driver.ErrNotSupported), errors.Is(err, driver.ErrInvalid), errors.Is(err, driver.ErrClosed):
		e.Lasting, e.NotApplied = true, true
	case loginImpossible(err):
		e.Lasting, e.NotApplied = true, true
		hint = "the server and the DSN share no way to log in"
	}
	if errors.Is(err, driver.ErrSchema) {
		n, hint = 0, "" // said already
	}
	switch {
	case schemaErrors[n]:
		e.Err = fmt.Errorf("mysql: %s: %w: %s: %w", what, driver.ErrSchema, hint, err)
	case hint != "":
		e.Err = fmt.Errorf("mysql: %s: %s: %w", what, hint, err)
	default:
		e.Err = fmt.Errorf("mysql: %s: %w", what, err)
	}
	return e
}

func loginImpossible(err error) bool {
	for _, e := range []error{mysql.ErrNoTLS, mysql.ErrCleartextPassword, mysql.ErrNativePassword, mysql.ErrOldPassword, mysql.ErrUnknownPlugin, mysql.ErrOldProtocol} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// notSent classifies an error that came before anything of the step was sent.
func notSent(what string, err error) error {
	err = classify(what, err)
	var e *driver.Error
	if errors.As(err, &e) && !e.NotApplied {
		return &driver.Error{Lasting: e.Lasting, NotApplied: true, Silent: e.Silent, Err: e.Err}
	}
	return err
}

// maybeApplied classifies an error of a step whose earlier statement may have
// changed something.
func maybeApplied(what string, err error) error {
	err = classify(what, err)
	var e *driver.Error
	if errors.As(err, &e) && e.NotApplied {
		return &driver.Error{Lasting: e.Lasting, Silent: e.Silent, Err: e.Err}
	}
	return err
}

// errClosed is the answer of a Store that was closed.
func errClosed() error {
	return &driver.Error{Lasting: true, NotApplied: true, Err: fmt.Errorf("mysql: %w: the store was closed", driver.ErrClosed)}
}
