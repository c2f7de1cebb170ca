package schema

import (
	"context"
	"fmt"

	"github.com/rowlock/rowlock/driver"
)

// Kind is what a finding is about.
type Kind uint8

const (
	Missing Kind = iota // collections are not there
	Unfit               // a collection is not as it must be
	Failed              // a question got no answer, or not this user
	Unseen              // the user has no right to list them: their options are not looked at
)

// Finding is one thing that is wrong with the collections. What stops a Store is the error of Check and of
// the first use; the doctor reports all.
type Finding struct {
	Kind Kind
	Says string
	Mend string // the command that mends it
	Stop error  // why the Store cannot work; nil: it can
}

// migrate mends what is missing.
const migrate = "rowlock migrate --up"

// stop is the first that stops the Store.
func stop(found []Finding) error {
	for _, f := range found {
		if f.Stop != nil {
			return f.Stop
		}
	}
	return nil
}

// unfit is a finding with the command of the shell that mends it.
func (s Schema) unfit(mend, format string, args ...any) Finding {
	err := fmt.Errorf("%w: %s: %s: %s", driver.ErrSchema, s.Store, fmt.Sprintf(format, args...), mend)
	return Finding{Unfit, err.Error(), mend, s.refuse(err)}
}

func (s Schema) failed(ctx context.Context, err error) []Finding {
	return []Finding{{Kind: Failed, Stop: s.Runner.Fail(ctx, "check", err)}}
}

// refuse makes an error one that no repetition mends.
func (Schema) refuse(err error) error {
	return &driver.Error{Lasting: true, NotApplied: true, Err: err}
}
