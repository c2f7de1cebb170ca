package rowlockcli

import (
	"errors"
	"io"
	"os"
	"testing"
)

// TestKeepGoing: a command is started again if it was ended with its lease, and nobody has told it to end.
func TestKeepGoing(t *testing.T) {
	lost := &ExitError{Code: exitLost, Err: errors.New("lost")}
	for _, c := range []struct {
		name string
		run  run
		err  error
		want bool
	}{
		{"cut off", run{f: runFlags{keepGoing: true}, cut: true}, lost, true},
		{"without --keep-going", run{cut: true}, lost, false},
		{"it ended by itself", run{f: runFlags{keepGoing: true}}, lost, false},
		{"it ended well", run{f: runFlags{keepGoing: true}}, nil, false},
		{"told to end before the loss", run{f: runFlags{keepGoing: true}, cut: true, toldToEnd: true}, lost, false},
	} {
		r := c.run
		r.app, r.keys, r.signals, r.f.ttl = &app{stderr: io.Discard}, []string{"k"}, make(chan os.Signal, 1), 60
		again, err := r.again(t.Context(), c.err)
		if again != c.want || !again && err != c.err {
			t.Errorf("%s: %t, %v", c.name, again, err)
		}
	}
}
