package guards

import (
	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/driver"
)

// Lost is the error of a guard whose lease has a row with that status; nil while the
// row has the hold (driver.Alive). A hold that was released, but not by its holder, was
// released by force.
func Lost(h driver.Hold, status driver.Status) error {
	lost := &rowlock.LostError{Key: h.Key, Token: h.Token, Reason: rowlock.ReasonRemoved}
	switch status {
	case driver.Alive:
		return nil
	case driver.Taken:
		lost.Reason = rowlock.ReasonTaken
	case driver.Forced, driver.Released:
		lost.Reason = rowlock.ReasonForced
	}
	return lost
}
