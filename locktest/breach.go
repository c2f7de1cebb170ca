package locktest

import "testing"

// Breach fails the test for something that no load of the machine excuses: two holders, a token that goes back, a stale commit, a
// loss that was told too late. What else fails may have been too slow, and is run again (`make test`); a breach is not.
func Breach(t testing.TB, promise, format string, args ...any) {
	t.Helper()
	t.Errorf("BREACH "+promise+": "+format, args...)
}
