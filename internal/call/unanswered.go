package call

import (
	"context"
	"errors"
	"strings"

	"github.com/rowlock/rowlock/driver"
)

// unanswered is the error of an attempt whose own time is over: it is worth a wait for as long as its TTL. It is no end of a
// caller's context, who may have given none, so it does not match context.DeadlineExceeded; everything else of it stays.
type unanswered struct{ cause error }

const noAnswer = "no answer within the TTL"

func (u unanswered) Error() string {
	return strings.ReplaceAll(u.cause.Error(), context.DeadlineExceeded.Error(), noAnswer)
}

// Is implements errors.Is.
func (u unanswered) Is(target error) bool {
	return target != context.DeadlineExceeded && errors.Is(u.cause, target)
}

// As implements errors.As.
func (u unanswered) As(target any) bool { return errors.As(u.cause, target) }

// withinTTL is err without the name of a context's end, which was the attempt's own: no caller's context reaches a store.
func withinTTL(err error) error {
	if !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	e := &driver.Error{Lasting: driver.IsLasting(err), NotApplied: driver.IsNotApplied(err), Silent: driver.IsSilent(err)}
	e.Err = unanswered{err}
	return e
}
