package rowlock

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/grant"
)

// Lease is one hold of one key by one caller. It ends once: by Release, or by
// being lost. All methods are safe for concurrent use, and for use after the end.
type Lease struct {
	c     *Client
	g     *grant.Grant
	token int64
	began time.Duration // when the caller got it

	mu        sync.Mutex
	ended     error      // nil while held
	handedOff bool       // released, and the grant went on to another caller of the client
	local     bool       // of a handoff, or beside another reader's: constant
	answer    *LostError // of Release, once its answer was a loss
	done      chan struct{}
	contexts  map[*leaseContext]struct{}
	views     map[*Lease]struct{} // that have not ended
	group     *Group              // that is told of the end
	callSite  callSite
	leads     atomic.Bool // a term of Lead
	watched   *watched    // nil: no observer was told of it

	view *view // nil: it is the lease of a grant
}

// user is a Lease as the grant sees it, and what waits for keys.
type user Lease

// leaseOfUser is the Lease that a user is.
func leaseOfUser(u grant.User) *Lease { return (*Lease)(u.(*user)) }

// granted is a grant with the lease of its first user: they are made, and end, together.
type granted struct {
	grant grant.Grant
	lease Lease
}

// newUser makes the lease of a caller that got its key then. g is the grant that the client has; nil: one that is still to
// be made, for which newUser makes room.
func (c *Client) newUser(g *grant.Grant, began time.Duration, token int64) grant.Used {
	if g != nil {
		return grant.Used{Grant: g, User: (*user)(&Lease{c: c, g: g, token: token, began: began, local: true})}
	}
	new := new(granted)
	l := &new.lease
	l.c, l.g, l.token, l.began = c, &new.grant, token, began
	return grant.Used{Grant: l.g, User: (*user)(l)}
}

// Ended implements grant.User: Err, Done and the contexts, before any statement leaves.
func (u *user) Ended(reason grant.Reason, cause error) {
	l := (*Lease)(u)
	switch reason {
	case grant.HandedOff:
		l.ends(ErrReleased, true)
	case grant.Released, grant.Unwanted:
		l.ends(ErrReleased, false)
	default:
		l.ends(lostError(l.g.Hold.Key, l.token, reason, cause), false)
	}
}

// ends ends the lease with its contexts and views, once; false: it had ended.
func (l *Lease) ends(err error, handedOff bool) bool {
	l.mu.Lock()
	if l.ended != nil {
		l.mu.Unlock()
		return false
	}
	l.ended, l.handedOff = err, handedOff
	if l.watched != nil {
		l.watched.endsLocked(l, err, handedOff)
	}
	if l.done != nil {
		close(l.done)
	}
	for ctx := range l.contexts {
		ctx.cancel(err)
	}
	views, group := l.views, l.group
	l.contexts, l.views, l.group = nil, nil, nil
	l.mu.Unlock()
	for v := range views {
		v.ends(err, false)
	}
	if group != nil {
		group.leaseEnded(l, err)
	}
	return true
}

// Renewed implements grant.User.
func (u *user) Renewed(now time.Duration) { (*Lease)(u).logLongHold(now) }

// Key is what is held; empty of a nil Lease, as Acquire returns it beside an error.
func (l *Lease) Key() string {
	if l == nil {
		return ""
	}
	return l.g.Hold.Key
}

// Token is the fencing token: positive, and larger than that of every earlier
// hold of the key. Hand it to a resource that refuses smaller ones than it has seen.
//
// Info.Token is what the database has: the lease's, or less. It is less for a hold
// that was handed off inside the program, and with the strategy UniqueInsert of package
// mysqllock, whose rows have a provisional one. Whether a lease or a log line is that
// of a row its hold ID tells: Info.Hold, hold in log lines. Of a nil Lease it is 0.
func (l *Lease) Token() int64 {
	if l == nil {
		return 0
	}
	return l.token
}

// Slot is the number of the place that a lease of [Slots] has: 0 to n-1, and no other live hold
// of the key has it. It can be used as the number of a worker, a shard or a port. A client gets
// the one that it had last, if that is free. Without Slots it is -1.
func (l *Lease) Slot() int {
	if l == nil || l.g.Hold.Mode != driver.Slot {
		return -1
	}
	return l.g.Hold.Slot
}

// Until is the trust deadline by the wall clock, for display: it moves with every
// renewal. After the end it is the last one, of a nil Lease the zero time. To know whether the lease is held, ask Err.
func (l *Lease) Until() time.Time {
	if l == nil {
		return time.Time{}
	}
	return time.Now().Add(l.g.Deadline() - l.c.now())
}

// Left is for how long from now on the lease is trusted if no renewal is acknowledged meanwhile,
// by the monotonic clock that Err asks; 0 after the end. It is for those who must begin to
// stop before the end, as a program that first asks a command to end and then ends it.
func (l *Lease) Left() time.Duration {
	if l.Err() != nil {
		return 0
	}
	return max(l.g.Deadline()-l.c.now(), 0)
}

// Done is closed when the hold ends, released or lost. In a process that was
// frozen it is closed as soon as the process runs again; Err knows at once. Of a nil Lease it is closed.
func (l *Lease) Done() <-chan struct{} {
	if l == nil {
		return closedDone
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.done == nil {
		l.done = make(chan struct{})
		if l.ended != nil {
			close(l.done)
		}
	}
	return l.done
}

// Err is nil while the key is held. It looks at the clock each time: a process
// that was frozen for longer than the lease gets the truth at its first look.
// After the end it is ErrReleased, or a *LostError with its Reason.
func (l *Lease) Err() error {
	if l == nil {
		return errNilLease
	}
	if err := l.end(); err != nil {
		return err
	}
	l.g.Check()
	return l.end()
}

// end is what ended the lease; nil: nothing that anybody has noticed.
func (l *Lease) end() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ended
}

// errNilLease: what Acquire returns beside an error was used.
var errNilLease = fmt.Errorf("%w: the Lease is nil: was the error of Acquire looked at?", ErrInvalid)

// Renew extends the lease now by its TTL, for a lease made with NoRenew or to be
// safe before a long step. It is nil once the database has acknowledged. A failed
// Renew changes nothing, the lease is held as long as before; an error that
// matches ErrLost or ErrReleased says that it is over. ctx bounds the wait only: a
// renewal that a caller has left goes on, and extends the lease when it is answered.
func (l *Lease) Renew(ctx context.Context) error {
	switch {
	case l == nil:
		return fmt.Errorf("renew: %w", errNilLease)
	case ctx == nil:
		return fmt.Errorf("renew %q: %w: the context is nil", l.Key(), ErrInvalid)
	}
	err := l.Err()
	if err == nil {
		if ctx.Err() != nil {
			err = waitError(ctx, nil)
		} else if err = l.g.Renew(ctx); err != nil && err == ctx.Err() {
			err = waitError(ctx, l.c.waitCause(nil))
		}
		if ended := l.Err(); ended != nil {
			err = ended
		}
	}
	if err != nil {
		return fmt.Errorf("renew %q: %w", l.Key(), err)
	}
	return nil
}

// Release ends the hold and frees the key (with MinHold: when that is over). Of a view
// (see Reentrant) it ends the view only. It
// may be called more than once and from a defer; the answer is the same ever
// after: nil, or a *LostError if the hold was lost before. Release of a nil Lease is
// nil: a defer after a failed Acquire does nothing.
//
// It is sent even when ctx is cancelled, and waits for the answer at most
// Options.ReleaseWait and never past the trust deadline. If none came it is nil
// all the same: the holder has stopped, the release is repeated in the
// background, and at the latest the TTL frees the key. It is nil too where the
// database refuses the release for good, for want of a privilege for example: that is
// the operator's to mend, so an Error line of Options.Logger names the key and the cause,
// Stats.Unresolved counts the hold, and it is tried again now and then. Err and Done tell
// of the end before the release is sent.
func (l *Lease) Release(ctx context.Context) error {
	if l == nil {
		return nil
	}
	if ctx == nil {
		ctx = context.Background()
	}
	if l.view != nil {
		return l.releaseView()
	}
	released := l.c.store.Work.Do(func() {
		if l.end() == nil && !l.c.table.Handoff(ctx, grant.Used{Grant: l.g, User: (*user)(l)}, l.token) {
			l.g.Release(ctx, (*user)(l), l.c.opts.ReleaseWait, l.c.opts.ReleaseAsync)
		}
	})
	if !released && l.Err() == nil {
		l.g.End(grant.Closed, nil)
	}
	return l.releaseAnswer()
}

// releaseAnswer waits for the answer, and is what every Release gives.
func (l *Lease) releaseAnswer() error {
	l.mu.Lock()
	ended, handedOff, answer := l.ended, l.handedOff, l.answer
	l.mu.Unlock()
	switch {
	case answer != nil:
		return answer
	case ended != ErrReleased:
		return ended
	case handedOff:
		return nil
	}
	reason, cause := l.g.Answer()
	if reason == grant.Released {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.answer == nil {
		l.answer = lostError(l.g.Hold.Key, l.token, reason, cause)
	}
	return l.answer
}
