package testserver

import (
	"hash/fnv"
	"testing"
)

// LongReason is what Long says. .ci/skips lets it pass in the short tier, and nowhere else.
const LongReason = "a long test: make test-long runs it"

// Long leaves a test out of the short tier (go test -short): docs/quality/tests.md says which tests are long.
func Long(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip(LongReason)
	}
}

// Some are all servers, or pairs of a server and a strategy, that a test knows; in the short tier one of them, by the test's name, so
// that over the tests each occurs.
func Some[T any](t testing.TB, all ...T) []T {
	if !testing.Short() {
		return all
	}
	h := fnv.New64a()
	h.Write([]byte(t.Name())) // never fails
	i := (h.Sum64() >> 16) % uint64(len(all))
	return all[i : i+1]
}
