package rowlockcli

import (
	"context"
	"errors"
	"net"
	"strings"

	"github.com/go-sql-driver/mysql"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/driver"
)

// The exit codes, beside those of a command that was run. They are those of sysexits.h and of sh,
// but for 79 and 80.
const (
	exitFailed      = 1   // the answer is no: a key is not free, something is missing
	exitUsage       = 64  // the command line cannot be used
	exitUnavailable = 69  // the database cannot be reached
	exitBug         = 70  // a mistake in this program
	exitHeld        = 75  // the key is held
	exitConfig      = 78  // password, privileges or tables are missing
	exitLost        = 79  // the lease was lost before the command ended
	exitMaxHold     = 80  // the command was ended because --max-hold was over
	exitNotRunnable = 126 // the command cannot be executed
	exitNotFound    = 127 // the command was not found
	exitSignal      = 128 // + the number of the signal
)

// ExitError is an error with the exit code of the process.
type ExitError struct {
	Code int
	Err  error // nil: nothing is to be said
}

// Error is the message; empty where there is none.
func (e *ExitError) Error() string {
	if e.Err == nil {
		return ""
	}
	return e.Err.Error()
}

// Unwrap is the cause, or nil.
func (e *ExitError) Unwrap() error { return e.Err }

// ExitCode is the exit code for the error of a command, 0 for none.
func ExitCode(err error) int {
	var exit *ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit):
		return exit.Code
	case errors.Is(err, driver.ErrInvalid):
		return exitUsage
	case errors.Is(err, rowlock.ErrHeld):
		return exitHeld
	case errors.Is(err, driver.ErrSchema), errors.Is(err, driver.ErrNotSupported), denied(err):
		return exitConfig
	case strings.HasPrefix(err.Error(), "unknown command"), strings.Contains(err.Error(), "arg(s)"):
		return exitUsage // of cobra, which has no types for them
	}
	return exitUnavailable
}

// Numbers of MySQL's errors: https://dev.mysql.com/doc/mysql-errors/8.4/en/server-error-reference.html
const (
	errDatabaseDenied  = 1044
	errAccessDenied    = 1045
	errUnknownDatabase = 1049
	errTableDenied     = 1142
	errColumnDenied    = 1143
	errPrivilege       = 1227
	errNoPassword      = 1698
)

// number is that of an error of MySQL or MariaDB, 0 of any other.
func number(err error) uint16 {
	var m *mysql.MySQLError
	if errors.As(err, &m) {
		return m.Number
	}
	return 0
}

// code is that of an error of MongoDB, 0 of any other.
func code(err error) int32 {
	var command mongo.CommandError
	if errors.As(err, &command) {
		return command.Code
	}
	return 0
}

// notLoggedIn reports whether the database refuses the user or the password.
func notLoggedIn(err error) bool {
	switch number(err) {
	case errAccessDenied, errNoPassword:
		return true
	}
	return code(err) == 18 || err != nil && strings.Contains(err.Error(), "auth error:") // AuthenticationFailed; of the handshake, which has no type
}

// denied reports whether the database refuses the user, or a statement.
func denied(err error) bool {
	switch number(err) {
	case errDatabaseDenied, errUnknownDatabase, errTableDenied, errColumnDenied, errPrivilege:
		return true
	}
	return code(err) == 13 || notLoggedIn(err) // Unauthorized
}

// advised is an error that says what to do.
type advised struct {
	error
	do string
}

func (a advised) Unwrap() error { return a.error }

// advice is what to do about an error, as a sentence to add to it.
func advice(err error) string {
	var has advised
	var network *net.OpError
	switch {
	case errors.As(err, &has):
		return has.do
	case errors.Is(err, driver.ErrSchema):
		return "; create the tables: rowlock migrate --up"
	case number(err) == errUnknownDatabase:
		return "; create the database, or correct its name in the address"
	case notLoggedIn(err):
		return "; look at user and password (ROWLOCK_PASSWORD, --password-file)"
	case denied(err):
		return "; what a user needs is printed by: rowlock grants --user NAME"
	case errors.As(err, &network) && network.Op == "dial":
		return "; look at host and port of the address, and whether the server runs"
	case errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, rowlock.ErrHeld):
		return "; look at address and network, or give it more time: --timeout"
	}
	return ""
}
