package rowlockcli

import (
	"errors"

	"github.com/rowlock/rowlock"
)

// The reasons of --on-fail.
const (
	reasonHeld        = "held"        // another has the key
	reasonUnreachable = "unreachable" // the database was not reached
	reasonRefused     = "refused"     // password, privileges or tables are missing
	reasonLost        = "lost"        // before the command ended
	reasonMaxHold     = "max-hold"    // the command was ended by --max-hold
)

// failure says what was wrong with the lock of a run that ended with err. Empty: nothing, or it does not
// concern the lock: the command ended by itself, or was not found, or a signal came, or the run was made before.
func failure(err error) string {
	var exit *ExitError
	switch {
	case err == nil, errors.Is(err, errRanBefore):
		return ""
	case errors.As(err, &exit) && exit.Err == nil:
		return "" // the command's own, or of a signal
	case errors.Is(err, rowlock.ErrHeld):
		return reasonHeld
	}
	switch ExitCode(err) {
	case exitLost:
		return reasonLost
	case exitMaxHold:
		return reasonMaxHold
	case exitUnavailable:
		return reasonUnreachable
	case exitConfig:
		return reasonRefused
	}
	return ""
}
