package conn

import (
	sqldriver "database/sql/driver"
	"errors"
	"fmt"

	"github.com/go-sql-driver/mysql"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/handshake"
)

// Error numbers of the server that mean something to us.
// MySQL 9.7 error reference: https://dev.mysql.com/doc/mysql-errors/9.7/en/server-error-reference.html
// MariaDB: https://mariadb.com/kb/en/mariadb-error-code-reference/
const (
	ErLockWait       = 1205 // waited too long for a lock; the statement is undone
	ErDeadlock       = 1213 // chosen as the victim of a deadlock, or a conflict between nodes; undone
	ErSnapshot       = 1020 // MariaDB with innodb_snapshot_isolation: the row changed meanwhile; undone
	erHook           = 3100 // a plugin (group replication) refused the commit; undone
	ErGroupRollback  = 3101 // group replication refused the commit; undone
	ErKilled         = 1317 // KILL QUERY; undone
	erPacket         = 1153 // larger than max_allowed_packet; not read
	ErIdle           = 4031 // the server had closed the idle connection before our statement came
	ErNoDatabase     = 1049
	ErDatabaseDenied = 1044
	ErTableDenied    = 1142
	ErNoTable        = 1146
	ErNoColumn       = 1054
	ErNoIndex        = 1176
	ErNoSuchThread   = 1094
	ErNoWait         = 3572 // how MySQL answers a NOWAIT that meets a lock; MariaDB says 1205
	erKillDenied     = 1095
	erSpecificAccess = 1227
	ErNoVariable     = 1193
	erDuplicateKey   = 1062
	erInTransaction  = 1568 // SET does not change the next transaction while one is open
)

// CannotServe are the errors after which another connection may reach a server that
// can serve: read-only after a failover, a Galera node that is not ready, a member
// of group replication that was shut out. The server changed nothing.
var CannotServe = map[uint16]bool{1047: true, 1290: true, 1792: true, 1836: true, erHook: true, ErGroupRollback: true}

// ErrBlocked: another transaction kept the statement waiting for longer than its
// bound, so it was ended. Nothing was changed.
var ErrBlocked = errors.New("another transaction holds a lock that the statement needs")

// blockedError is ErrBlocked with what the server said when it ended the wait (1205, 1317, 1213). That is for Number
// alone: it is no business of a caller's.
type blockedError struct{ cause error }

func (blockedError) Error() string        { return ErrBlocked.Error() }
func (blockedError) Is(target error) bool { return target == ErrBlocked }

// handshakeBroken are the answers of a server that lost the thread while a connection was made: it was overloaded, or
// something between took too long. The next one is another.
var handshakeBroken = map[uint16]bool{1042: true, 1043: true, 1156: true, 1157: true, 1158: true, 1159: true, 1160: true, 1161: true}

// brokenHandshake reports whether a connect failed so. The driver does not understand such an answer either where it comes in the
// place of another: its number in the sequence is wrong then.
func brokenHandshake(err error) bool {
	return handshakeBroken[Number(err)] || errors.Is(err, mysql.ErrPktSync)
}

// NoConnection reports whether the server, or the user's account, has no connection left.
func NoConnection(err error) bool {
	switch Number(err) {
	case 1040, 1203, 1226:
		return true
	}
	return false
}

// Number is the server's error number, or 0 for an error that is not the server's.
func Number(err error) uint16 {
	var blocked blockedError
	if errors.As(err, &blocked) {
		err = blocked.cause
	}
	var e *mysql.MySQLError
	if errors.As(err, &e) {
		return e.Number
	}
	return 0
}

// Classify says once what an error means: see driver.Error. what names the step
// and the table. The error is that of a statement that commits by itself, before which nothing was changed; else
// it is for MaybeApplied.
func Classify(what string, err error) error {
	if err == nil {
		return nil
	}
	var known *driver.Error
	if errors.As(err, &known) {
		return err
	}
	why, hint := lastingCause(err), ""
	if why != nil {
		hint = why.advice
	}
	if what == "connect" && ofParameter[Number(err)] {
		hint = "the server refused a parameter of the DSN: go-sql-driver sends those that it does not know as SET: leave out what is another driver's (useSSL, sslmode, serverVersion), and correct what is misspelt"
	}
	e := &driver.Error{Lasting: why != nil, NotApplied: undone(err), Silent: errors.Is(err, ErrSilent)}
	switch {
	case errors.Is(err, ErrTooLarge), errors.Is(err, ErrLeft), errors.Is(err, sqldriver.ErrBadConn):
		e.NotApplied = true // ErrBadConn is the driver's word for "nothing was sent"
	case errors.Is(err, driver.ErrSchema), errors.Is(err, driver.ErrNotSupported), errors.Is(err, driver.ErrInvalid), errors.Is(err, driver.ErrClosed):
		e.Lasting, e.NotApplied = true, true
	case loginImpossible(err):
		e.Lasting, e.NotApplied = true, true
		hint = "the server and the DSN share no way to log in"
	case handshake.Lasts(err): // before anything was sent: the driver tells no alerts of a connection that is in use
		e.Lasting, e.NotApplied = true, true
		hint = handshake.Advice
	}
	if errors.Is(err, driver.ErrSchema) {
		why, hint = nil, "" // said already
	}
	switch {
	case why != nil && why.schema:
		e.Err = fmt.Errorf("mysql: %s: %w: %s: %w", what, driver.ErrSchema, hint, err)
	case hint != "":
		e.Err = fmt.Errorf("mysql: %s: %s: %w", what, hint, err)
	default:
		e.Err = fmt.Errorf("mysql: %s: %w", what, err)
	}
	return e
}

// ofParameter are the answers to a SET that was made of a parameter of the DSN. While a connection is made nothing else is sent.
var ofParameter = map[uint16]bool{1064: true, ErNoVariable: true, 1229: true, 1231: true, 1232: true, 1238: true, 1621: true}

func loginImpossible(err error) bool {
	for _, e := range []error{mysql.ErrNoTLS, mysql.ErrCleartextPassword, mysql.ErrNativePassword, mysql.ErrOldPassword, mysql.ErrUnknownPlugin, mysql.ErrOldProtocol} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// NotSent classifies an error that came before anything of the step was sent.
func NotSent(what string, err error) error {
	err = Classify(what, err)
	var e *driver.Error
	if errors.As(err, &e) && !e.NotApplied {
		return &driver.Error{Lasting: e.Lasting, NotApplied: true, Silent: e.Silent, Err: e.Err}
	}
	return err
}

// MaybeApplied classifies an error of a step whose earlier statement may have
// changed something.
func MaybeApplied(what string, err error) error {
	err = Classify(what, err)
	var e *driver.Error
	if errors.As(err, &e) && e.NotApplied {
		return &driver.Error{Lasting: e.Lasting, Silent: e.Silent, Err: e.Err}
	}
	return err
}

// Undone reports whether err, of one statement, says that nothing was done: it was not sent, or the server refused it.
func Undone(err error) bool { return driver.IsNotApplied(Classify("", err)) }

// Unsure reports whether err says that something may have been changed all the same: it has been through MaybeApplied.
func Unsure(err error) bool {
	var e *driver.Error
	return errors.As(err, &e) && !e.NotApplied
}

// ErrClosed is the answer of a Store that was closed.
func ErrClosed() error {
	return &driver.Error{Lasting: true, NotApplied: true, Err: fmt.Errorf("mysql: %w: the store was closed", driver.ErrClosed)}
}

// ReadOnly is a server that says so by a variable.
type ReadOnly struct{ Variable, Value string }

// Error says what to do.
func (r ReadOnly) Error() string {
	return fmt.Sprintf("the server is read-only (%s is %s): name the primary in the DSN, or make this server writable", r.Variable, r.Value)
}

// IsElsewhere reports whether err says that the connection leads to a server that
// cannot serve, or that the address may have left, so that another may.
func IsElsewhere(err error) bool {
	return CannotServe[Number(err)] || errors.Is(err, ErrLeft) || errors.As(err, new(ReadOnly))
}
