package testserver

import (
	"testing"
	"time"
)

// Patience is how long a test waits for what must come: an eighth of the time that `go test -timeout` leaves, so that a busy machine makes
// the test slow and not red, and of several tests that wait in vain each says what for. Without a time-out, and in a bubble of
// testing/synctest, where waiting takes no time, it is an hour.
func Patience(t testing.TB) time.Duration {
	if end, ok := deadline(t); ok {
		return time.Until(end) / 8
	}
	return time.Hour
}

func deadline(t testing.TB) (end time.Time, ok bool) {
	defer func() { _ = recover() }() // in a bubble the question panics
	if t, can := t.(interface{ Deadline() (time.Time, bool) }); can {
		return t.Deadline()
	}
	return end, false // a benchmark
}
