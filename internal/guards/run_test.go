package guards

import (
	"errors"
	"strings"
	"testing"

	"github.com/rowlock/rowlock/driver"
)

func TestCheckRun(t *testing.T) {
	t.Parallel()
	for _, run := range []string{"", strings.Repeat("r", MaxRun+1)} {
		if err := CheckRun(run); !errors.Is(err, driver.ErrInvalid) {
			t.Errorf("a run ID of %d bytes: %v", len(run), err)
		}
	}
	if err := CheckRun(strings.Repeat("r", MaxRun)); err != nil {
		t.Error(err)
	}
}
