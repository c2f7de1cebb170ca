package rowlock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// Lead runs fn while this program leads: while it holds key. It waits for the key, calls fn
// with a context that ends with the hold, and when the hold was lost it waits until fn has
// returned, pauses for about a tenth of the TTL, and waits for the key again. So one of the
// programs that call Lead with a key leads at a time, and when it dies another one does
// within its TTL. Each hold is a term, and term.Token() its number: later terms have larger
// ones.
//
// fn leads for as long as it likes. When it returns while the key is held the program has
// resigned: Lead releases the key and returns what fn returned. Otherwise Lead ends with an
// error:
//
//   - ctx's error when ctx has ended: fn's context has ended with it.
//   - ErrClosed when [Client.Close] has begun: it ends fn's context with that cause, and waits
//     for fn, as it does for the function of [Do].
//   - ErrInvalid for bad arguments, and ErrSelfDeadlock where ctx comes from a lease of the same key.
//   - At a first use what trying again does not cure: ErrSchema, ErrNotSupported, wrong credentials, a
//     certificate that cannot be verified. Failures that may pass are waited out.
//
// It is a first use until the database has answered Lead, be it only that another has the key. From then on
// Lead waits out what the database refuses, too: somebody may be about to mend it (a password that is rotated, a
// privilege or a table that is missing for a while). The Logger gets a line (Error). Lead tries again after a
// second, then less often, up to every ten seconds, or every TTL if that is shorter. So give the Client a Logger, and
// look at Lead's error: without it you do not notice a program that never stood for election.
//
// An error of fn beside the first two is joined with them. What fn returns after a loss ends
// nothing, also if it is nil: it is taken for a consequence of the loss, and what fn finished
// was perhaps not alone. Such an error is logged, unless it is that of the context or of the
// lease. A loss that comes out only at the release after fn is joined with its error, as by Do.
//
// The key is not released before fn has returned, whatever ended its context; fn should return
// soon then. Where it goes on without its lease another program leads beside it: it must ask
// term.Err() before each step that others can see, or take that step in a guarded transaction.
// One call of Lead never runs fn twice at a time. After a panic and runtime.Goexit in fn the
// key is released.
//
// The options are those of Acquire. NoWait is ErrInvalid, because Lead waits, and so are Shared
// and Slots, with which several programs would lead. With MaxHold a term ends after that, and any
// program may win the next.
func Lead(ctx context.Context, l Locker, key string, fn func(ctx context.Context, term *Lease) error, opts ...Option) error {
	if err := checkRun(ctx, "lead", l, key, fn); err != nil {
		return err
	}
	switch s := settingsOf(opts); {
	case s.noWait:
		return fmt.Errorf("lead %q: %w: NoWait: Lead waits for the key; leave it out", key, ErrInvalid)
	case s.shared:
		return fmt.Errorf("lead %q: %w: Shared: every program would lead at once; leave it out", key, ErrInvalid)
	case s.slots:
		return fmt.Errorf("lead %q: %w: Slots: several programs would lead at once; leave it out, or call Do with it in a loop", key, ErrInvalid)
	}
	stands := &standing{verb: "lead", key: key}
	defer stands.loop.Over()
	opts = append(slices.Clip(opts), stands.option)
	for {
		term, err := stands.lease(ctx, l, opts)
		if err != nil {
			return err
		}
		term.leads.Store(true)
		r, open := runUnder(ctx, term, fn)
		if again, err := r.goOn(ctx, "lead", term, open); !again {
			return err
		}
		if !errors.Is(r.ended, ErrLost) {
			return r.withLoss()
		}
		term.c.pause(ctx, term.g.Terms.TTL/10)
	}
}

// settingsOf is what opts ask for, without defaults. A nil option is Acquire's to refuse.
func settingsOf(opts []Option) settings {
	var s settings
	for _, opt := range opts {
		if opt != nil {
			opt(&s)
		}
	}
	return s
}

// goOn reports whether Lead or Every may go on after a function under lease has ended; else
// err is why not. What the function said of a lost lease is logged.
func (r ran) goOn(ctx context.Context, verb string, lease *Lease, open bool) (again bool, err error) {
	switch c := lease.c; {
	case ctx.Err() != nil:
		return false, r.beside(fmt.Errorf("%s %q: %w", verb, lease.Key(), waitError(ctx, nil)))
	case !open || c.isClosed():
		return false, r.beside(fmt.Errorf("%s %q: %w", verb, lease.Key(), ErrClosed))
	case errors.Is(r.ended, ErrLost) && r.err != nil && !errors.Is(r.err, context.Canceled) && !errors.Is(r.err, ErrLost):
		c.log.WarnContext(ctx, "the function of a lost lease failed", "key", lease.Key(), "token", lease.token, "err", r.err)
	}
	return true, nil
}

// beside joins what ended the run with the function's error, unless that says only that its
// context has ended, and with the *LostError of a lost lease.
func (r ran) beside(end error) error {
	switch err := r.withLoss(); {
	case err == nil, err == context.Canceled, err == context.DeadlineExceeded, errors.Is(end, err):
		return end
	default:
		return errors.Join(end, err)
	}
}

// pause waits for d, a third more or less, or until ctx or the client ends.
func (c *Client) pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d*2/3 + rand.N(d*2/3+1))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	case <-c.open.Done():
	}
}
