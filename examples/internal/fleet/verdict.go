package fleet

import (
	"errors"
	"fmt"
	"io"
	"slices"
)

// Verdict prints the last line, which is success if nothing is wrong with the
// books and there are no alerts. The error lists both.
func Verdict(w io.Writer, wrong, alerts []error, success string) error {
	switch {
	case len(wrong) > 0:
		fmt.Fprintln(w, "The books are wrong.")
	case len(alerts) > 0:
		fmt.Fprintln(w, "The books are right, but somebody must look at the alerts.")
	default:
		fmt.Fprintln(w, success)
	}
	return errors.Join(slices.Concat(wrong, alerts)...)
}
