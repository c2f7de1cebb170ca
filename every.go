package rowlock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rowlock/rowlock/internal/unit"
)

// shortestPeriod is the shortest of Every.
const shortestPeriod = 20 * time.Millisecond

// Every runs fn once in each period, in one of all the programs that call it with the same
// key and period, by the database's clock: a cron job without a scheduler. Each program waits
// for the key; the one that gets it runs fn, and the key stays taken until a period after fn began
// (see [MinHold]), whether fn has returned before or its program has died. Then the programs
// race for the next run. The first run is at once, if the last one began a period ago or more.
//
// So a run begins at least a period after the run before it began, whatever is late, and runs never overlap
// as long as leases are held. A run must not begin long after its grant, or it would come too near to the
// next. If the answer to the grant is late, Every does not begin fn: it gives the key back, the next
// program that gets the key runs fn, and the Logger gets a line (Info). Late is more than 20 ms, or a
// twentieth of a period below 400 ms; after a late answer, more than twice as late as that. A run that
// takes longer than the period is followed by the next at once; none is made up for. A run begins some
// milliseconds after the period is over, and the next period counts from there: where runs belong to times
// of day, use a scheduler (package gocronlock). The run of a program that dies is over: the next is due at
// the end of its period, or of its TTL if that is later. What a run must do exactly once belongs in Once of
// the Store.
//
// Every returns only with an error, when fn, ctx or the client has ended it:
//
//   - fn's error, joined with the *LostError if the release showed that the hold was lost. A
//     job that is to go on after a failure handles it in fn, and returns nil.
//   - ctx's error when ctx has ended, after fn has returned, whose context has ended with it.
//   - ErrClosed when [Client.Close] has begun, which waits for fn as it does for that of [Do].
//   - ErrInvalid, ErrSelfDeadlock, and at a first use what trying again does not cure; see [Lead]. Later Every waits
//     that out, too, with a line in the log (Error).
//
// If fn returns an error too, it is joined with ctx's or ErrClosed. When a hold was lost before
// fn returned, what fn returned ends nothing, as with Lead: the next run is that of the next
// period.
//
// period is at least 20 ms, at most a year, and the same in all programs: each grant counts its own.
// The options are those of Acquire; NoWait, MinHold and Reentrant are ErrInvalid, and so is a MaxHold
// below the period. ForceRelease ends the period: the next run begins within about a minute.
//
// While the key is kept and nobody runs, a program that waits asks for it about once a minute;
// while fn runs elsewhere it waits as Acquire does.
func Every(ctx context.Context, l Locker, key string, period time.Duration, fn func(ctx context.Context, lease *Lease) error, opts ...Option) error {
	if err := checkRun(ctx, "every", l, key, fn); err != nil {
		return err
	}
	if err := unit.Check("the period is", period, shortestPeriod); err != nil {
		return fmt.Errorf("every %q: %w: %w", key, ErrInvalid, err)
	}
	switch s := settingsOf(opts); {
	case s.reentrant:
		return fmt.Errorf("every %q: %w: Reentrant: each run needs a hold of its own; leave it out", key, ErrInvalid)
	case period <= 0 || period > longest:
		return fmt.Errorf("every %q: %w: the period is %v: use a positive time up to %v", key, ErrInvalid, period, longest)
	case s.noWait:
		return fmt.Errorf("every %q: %w: NoWait: Every waits for the key; leave it out", key, ErrInvalid)
	case s.MinHold != 0:
		return fmt.Errorf("every %q: %w: MinHold %v: the key is kept for the period, %v; leave it out", key, ErrInvalid, s.MinHold, period)
	case s.MaxHold > 0 && s.MaxHold < period:
		return fmt.Errorf("every %q: %w: MaxHold %v is under the period %v: use at least that, or none", key, ErrInvalid, s.MaxHold, period)
	}
	p := punctual{usual: min(period/20, lateUsual)}
	p.allowed = p.usual
	stands := &standing{verb: "every", key: key}
	defer stands.loop.Over()
	all := append(append(make([]Option, 0, len(opts)+3), opts...), stands.option, MinHold(period), func(s *settings) { s.Late = p.allowed })
	for {
		lease, err := stands.lease(ctx, l, all)
		if err != nil {
			return err
		}
		begun := false
		r, open := runUnder(ctx, lease, func(ctx context.Context, lease *Lease) error {
			if begun = p.begins(ctx, lease); !begun {
				return nil
			}
			return fn(ctx, lease)
		})
		if again, err := r.goOn(ctx, "every", lease, open); !again {
			return err
		}
		if !begun {
			continue
		}
		if r.err != nil && !errors.Is(r.ended, ErrLost) {
			return r.withLoss()
		}
	}
}

// A grant tells that the key was free at some time between the attempt and its answer. A period
// that counted from the grant would be over too early for a run that begins with a late answer. So
// the database keeps the key for the period and as long again as a run may begin late, which is
// little; the release, which is sent after the run has begun, says how late it was. A grant whose answer comes
// later than that is given back, and is free at once: nothing of the period is lost with it.

// lateUsual is how late a run may begin where nothing is known, in a long period.
const lateUsual = 20 * time.Millisecond

// punctual is how late runs of one call of Every may begin.
type punctual struct {
	usual   time.Duration
	allowed time.Duration // for the next grant
}

// begins reports whether a run may begin now under the lease, whose period counts from here. If
// not, the next grant may be answered as late as this one.
func (p *punctual) begins(ctx context.Context, l *Lease) bool {
	if l.view != nil {
		return true // of a lease that was granted before Every was called
	}
	late, ok := l.g.Begins()
	if !ok && late <= p.allowed {
		return false // the lease has ended meanwhile
	}
	if !ok {
		l.c.log.InfoContext(ctx, "a run is put off: its lease was granted too long ago", "key", l.Key(), "token", l.token, "ago", late)
		p.allowed = max(p.allowed, 2*late)
		l.c.store.Work.Do(func() { // the release may take as long
			l.g.Release(ctx, (*user)(l), max(l.c.opts.ReleaseWait, 4*late), false)
		})
		return false
	}
	p.allowed = max(p.usual, 2*late, p.allowed/2)
	return true
}
