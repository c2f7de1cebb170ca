package guards

import (
	"errors"
	"testing"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/driver"
)

func TestLost(t *testing.T) {
	t.Parallel()
	h := driver.Hold{Key: "k", Token: 7}
	if err := Lost(h, driver.Alive); err != nil {
		t.Error(err)
	}
	for status, want := range map[driver.Status]rowlock.Reason{
		driver.Taken: rowlock.ReasonTaken, driver.Forced: rowlock.ReasonForced,
		driver.Released: rowlock.ReasonForced, driver.Removed: rowlock.ReasonRemoved,
	} {
		var lost *rowlock.LostError
		if err := Lost(h, status); !errors.As(err, &lost) || lost.Reason != want || lost.Key != "k" || lost.Token != 7 {
			t.Errorf("status %v: %v, want reason %s", status, err, want)
		}
	}
}
