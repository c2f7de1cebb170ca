package rowlockcli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rowlock/rowlock"
)

// hold is what a run has of its keys, of KEY and those of --and: all or none. It ends with the first lease that ends.
type hold struct {
	held
	leases []*rowlock.Lease // in the order of the command line
}

// held is the lease of one key, or the group of several.
type held interface {
	Done() <-chan struct{}
	Err() error
	Context(context.Context) context.Context
	Release(context.Context) error
}

// take waits for all keys of the run.
func (r *run) take(ctx context.Context, options []rowlock.Option) (*hold, error) {
	if len(r.keys) == 1 {
		lease, err := r.locks.Acquire(ctx, r.keys[0], options...)
		if err != nil {
			return nil, err
		}
		return &hold{lease, []*rowlock.Lease{lease}}, nil
	}
	group, err := r.locks.AcquireAll(ctx, rowlock.Keys(r.keys...), options...)
	if err != nil {
		return nil, err
	}
	return &hold{group, group.Leases()}, nil
}

// endsFirst is the lease with the least time left.
func (h *hold) endsFirst() *rowlock.Lease {
	return slices.MinFunc(h.leases, func(a, b *rowlock.Lease) int { return cmp.Compare(a.Left(), b.Left()) })
}

// Left is for how long all leases are trusted.
func (h *hold) Left() time.Duration { return h.endsFirst().Left() }

// tokens lists keys and tokens for a message.
func (h *hold) tokens() string {
	texts := make([]string, len(h.leases))
	for i, lease := range h.leases {
		texts[i] = fmt.Sprintf("%q is held with token %d", lease.Key(), lease.Token())
	}
	return strings.Join(texts, ", ")
}

// environment tells the command its keys, tokens and slots: those of KEY by the names that they have alone, of the
// second key with _2 behind them, and so on.
func (h *hold) environment(slots bool) []string {
	keys := make([]string, len(h.leases))
	for i, lease := range h.leases {
		keys[i] = lease.Key()
	}
	own := keyVariables(keys)
	for i, lease := range h.leases {
		own = append(own, envToken+suffix(i)+"="+fmt.Sprint(lease.Token()))
		if slots {
			own = append(own, envSlot+suffix(i)+"="+fmt.Sprint(lease.Slot()))
		}
	}
	return own
}

// keyVariables are those that name keys, and say how many there are if there is more than one.
func keyVariables(keys []string) (own []string) {
	for i, key := range keys {
		own = append(own, envKey+suffix(i)+"="+key)
	}
	if len(keys) > 1 {
		own = append(own, envKeys+"="+fmt.Sprint(len(keys)))
	}
	return own
}

// suffix is behind the names of the variables of a key: none for the first one.
func suffix(i int) string {
	if i == 0 {
		return ""
	}
	return fmt.Sprintf("_%d", i+1)
}

// namesOfMoreKeys are those of the variables of a second key and later ones in an environment.
func namesOfMoreKeys(environment []string) []string {
	return slices.DeleteFunc(namesOf(environment), func(name string) bool {
		for _, prefix := range []string{envKey, envToken, envSlot} {
			if number, ok := strings.CutPrefix(name, prefix+"_"); ok {
				if _, err := strconv.Atoi(number); err == nil {
					return false
				}
			}
		}
		return true
	})
}

// quoted lists keys for a message.
func quoted(keys []string) string {
	texts := make([]string, len(keys))
	for i, key := range keys {
		texts[i] = fmt.Sprintf("%q", key)
	}
	return strings.Join(texts, ", ")
}

// andKeys takes the options --and from the arguments after KEY, where others of them are the command.
func andKeys(args []string) (keys, rest []string, err error) {
	for len(args) > 0 {
		switch key, ok := strings.CutPrefix(args[0], "--and="); {
		case ok:
			keys, args = append(keys, key), args[1:]
		case args[0] != "--and":
			return keys, args, nil
		case len(args) < 2:
			return nil, nil, invalid("--and needs a key: rowlock run KEY --and KEY -- COMMAND ARGUMENTS")
		default:
			keys, args = append(keys, args[1]), args[2:]
		}
	}
	return keys, nil, nil
}

// checkKeys refuses keys that are none, and one that is named twice.
func checkKeys(keys []string) error {
	for i, key := range keys {
		switch {
		case len(key) < 1 || len(key) > 255:
			return invalid("the key %.40q has %d bytes: use 1 to 255", key, len(key))
		case slices.Contains(keys[:i], key):
			return invalid("the key %q is named twice: name each key once", key)
		}
	}
	return nil
}
