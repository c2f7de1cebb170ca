package rowlock

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Every runs fn once in each period, in one of all the programs that call it with the same
// key and period, by the database's clock: a cron job without a scheduler. Each program waits
// for the key; the one that gets it runs fn, and the key stays taken until the grant + period
// (see [MinHold]), whether fn has returned before or its program has died. Then the programs
// race for the next run. The first run is at once, if the last one began a period ago or more.
//
// So two runs never begin within a period, and never overlap as long as leases are held. A run
// that takes longer than the period is followed by the next at once; none is made up for. A
// run begins some milliseconds after the period is over, and the next period counts from
// there: where runs belong to times of day, use a scheduler (package gocronlock). The run of a
// program that dies is over: the next is due at the end of its period, or of its TTL if that
// is later. What a run must do exactly once belongs in Once of the Store.
//
// Every returns only with an error, when fn, ctx or the client has ended it:
//
//   - fn's error, joined with the *LostError if the release showed that the hold was lost. A
//     job that is to go on after a failure handles it in fn, and returns nil.
//   - ctx's error when ctx has ended, after fn has returned, whose context has ended with it.
//   - ErrClosed when [Client.Close] has begun, which waits for fn as it does for that of [Do].
//   - The error of Acquire, for one that trying again does not cure; see [Lead].
//
// An error of fn beside ctx's and ErrClosed is joined with them. When a hold was lost before
// fn returned, what fn returned ends nothing, as with Lead: the next run is that of the next
// period.
//
// period is positive, at most a year, and the same in all programs: each grant counts its own.
// The options are those of Acquire; NoWait and MinHold are ErrInvalid, and so is a MaxHold
// below the period. ForceRelease ends the period: the next run begins within about a minute.
//
// While the key is kept and nobody runs, a program that waits asks for it about once a minute;
// while fn runs elsewhere it waits as Acquire does.
func Every(ctx context.Context, l Locker, key string, period time.Duration, fn func(ctx context.Context, lease *Lease) error, opts ...Option) error {
	if err := checkRun(ctx, "every", l, key, fn); err != nil {
		return err
	}
	switch s := settingsOf(opts); {
	case period <= 0 || period > longest:
		return fmt.Errorf("every %q: %w: the period is %v: use a positive time up to %v", key, ErrInvalid, period, longest)
	case s.noWait:
		return fmt.Errorf("every %q: %w: NoWait: Every waits for the key; leave it out", key, ErrInvalid)
	case s.MinHold != 0:
		return fmt.Errorf("every %q: %w: MinHold %v: the key is kept for the period, %v; leave it out", key, ErrInvalid, s.MinHold, period)
	case s.MaxHold > 0 && s.MaxHold < period:
		return fmt.Errorf("every %q: %w: MaxHold %v is under the period %v: use at least that, or none", key, ErrInvalid, s.MaxHold, period)
	}
	all := append(append(make([]Option, 0, len(opts)+1), opts...), MinHold(period))
	for {
		lease, err := leaseOf(ctx, "every", l, key, all)
		if err != nil {
			return err
		}
		r, open := runUnder(ctx, lease, fn)
		if again, err := r.goOn(ctx, "every", lease, open); !again {
			return err
		}
		if r.err != nil && !errors.Is(r.ended, ErrLost) {
			return r.withLoss()
		}
	}
}
