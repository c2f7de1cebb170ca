package guards

import (
	"fmt"

	"github.com/rowlock/rowlock/driver"
)

// MaxRun is the longest run ID, in bytes.
const MaxRun = 255

// CheckRun is an error that matches driver.ErrInvalid for a run ID that cannot be used.
func CheckRun(run string) error {
	if len(run) < 1 || len(run) > MaxRun {
		return fmt.Errorf("%w: a run ID of %d bytes: use 1 to %d", driver.ErrInvalid, len(run), MaxRun)
	}
	return nil
}
