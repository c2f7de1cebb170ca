package rowlock

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/rowlock/rowlock/internal/keys"
)

// Want is one key of AcquireAll.
type Want struct {
	Key     string
	Options []Option // for this key only: Shared, Slots, Guarded, MinHold, Owner
}

// Keys are wants of keys without options.
func Keys(keys ...string) []Want {
	wants := make([]Want, len(keys))
	for i, key := range keys {
		wants[i].Key = key
	}
	return wants
}

// groupKey is a key of AcquireAll.
type groupKey struct {
	name    string
	at      int // in wants
	set     settings
	watched *watched      // nil: there are no observers
	lease   *Lease        // nil: not held
	err     error         // of the last attempt
	refused *keys.Refusal // it is this, as the store said it
}

// groupKeys checks what can be checked before anything is sent, and puts the keys in order.
// set is what is asked for all.
func (c *Client) groupKeys(ctx context.Context, wants []Want, opts []Option) (keys []groupKey, set settings, err error) {
	const what = "acquire all"
	switch {
	case c == nil:
		return nil, set, fmt.Errorf("%s: %w: the Client is nil", what, ErrInvalid)
	case len(wants) == 0:
		return nil, set, fmt.Errorf("%s: %w: no key: use at least one", what, ErrInvalid)
	case len(wants) > c.store.Limits.Batch:
		return nil, set, fmt.Errorf("%s: %w: %d keys: this store takes at most %d in one call", what, ErrInvalid, len(wants), c.store.Limits.Batch)
	}
	set, err = c.prepare(ctx, wants[0].Key, opts)
	if err != nil {
		return nil, set, err
	}
	if set.reentrant {
		return nil, set, fmt.Errorf("%s: %w: Reentrant is for Acquire and TryAcquire: leave it out", what, ErrInvalid)
	}
	keys = make([]groupKey, len(wants))
	for i, w := range wants {
		own, err := c.wantSettings(i, w, opts, set)
		if err != nil {
			return nil, set, fmt.Errorf("%s: %w", what, err)
		}
		keys[i] = groupKey{name: w.Key, at: i, set: own}
	}
	slices.SortFunc(keys, func(a, b groupKey) int { return strings.Compare(a.name, b.name) })
	for i := 1; i < len(keys); i++ {
		if a, b := keys[i-1], keys[i]; a.name == b.name {
			return nil, set, fmt.Errorf("%s: %w: wants %d and %d are both of %q: name each key once", what, ErrInvalid, min(a.at, b.at)+1, max(a.at, b.at)+1, a.name)
		}
	}
	return keys, set, nil
}

// wantSettings is what is asked for one key: the options of all, then its own.
func (c *Client) wantSettings(i int, w Want, opts []Option, all settings) (settings, error) {
	if err := checkKey(w.Key); err != nil {
		return settings{}, fmt.Errorf("want %d: %w", i+1, err)
	}
	if len(w.Options) == 0 {
		return all, nil
	}
	for j, opt := range w.Options {
		if opt == nil {
			return settings{}, fmt.Errorf("%w: want %d (%q): option %d of %d is nil: leave it out", ErrInvalid, i+1, w.Key, j+1, len(w.Options))
		}
	}
	own, err := c.settingsFor(append(slices.Clip(opts), w.Options...))
	if err != nil {
		return own, fmt.Errorf("want %d (%q): %w", i+1, w.Key, err)
	}
	option := ""
	switch {
	case own.TTL != all.TTL:
		option = "TTL"
	case own.MaxHold != all.MaxHold:
		option = "MaxHold"
	case own.NoRenew != all.NoRenew:
		option = "NoRenew"
	case own.noWait != all.noWait:
		option = "NoWait"
	case own.reentrant:
		return own, fmt.Errorf("%w: want %d (%q): Reentrant is for Acquire and TryAcquire: leave it out", ErrInvalid, i+1, w.Key)
	}
	if option != "" {
		return own, fmt.Errorf("%w: want %d (%q) has a %s of its own: give it to AcquireAll, for all keys", ErrInvalid, i+1, w.Key, option)
	}
	return own, nil
}
