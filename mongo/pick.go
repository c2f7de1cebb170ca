package mongolock

import (
	"fmt"

	"github.com/rowlock/rowlock/driver"
)

// Entries are indexes into the requests or holds of one call.

// pick lists the items that entries name.
func pick[T any](items []T, entries []int) []T {
	some := make([]T, len(entries))
	for n, i := range entries {
		some[n] = items[i]
	}
	return some
}

// keysAt lists the keys of the requests that entries name.
func keysAt(reqs []driver.Request, entries []int) []string {
	keys := make([]string, len(entries))
	for n, i := range entries {
		keys[n] = reqs[i].Key
	}
	return keys
}

// keysOf lists the keys of holds.
func keysOf(holds []driver.Hold) []string {
	keys := make([]string, len(holds))
	for i, h := range holds {
		keys[i] = h.Key
	}
	return keys
}

// names is for messages: one key by its name, more by their number.
func names(keys []string) string {
	if len(keys) == 1 {
		return fmt.Sprintf("%q", keys[0])
	}
	return fmt.Sprintf("%d keys", len(keys))
}
