package check

import "github.com/rowlock/rowlock/dev/verify/history"

// conflict is P8: what the database does to a transaction because of another one never
// reaches a caller of the library, unless it is the caller's own transaction and the
// error is marked as one to run it again. The worker decides that, from the error: see
// Event.Raised. There is no exception, whatever others do to rows and tables.
//
// It does not see a conflict behind the end of the caller's patience: there the
// library was still trying.
func conflict(k *key) (found []Violation) {
	for _, e := range k.raised {
		found = append(found, k.violation("conflict", "P8", []history.Event{e},
			"a conflict inside of the database reached the caller (%s): %s: %s.", e.Raised, k.tell(e), e.Error))
	}
	return found
}
