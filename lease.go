package rowlock

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/rowlock/rowlock/driver"
)

// Lease is one hold of one key by one caller. It ends once: by Release, or by
// being lost. All methods are safe for concurrent use, and for use after the end.
type Lease struct {
	c     *Client
	hold  driver.Hold // constant
	set   settings
	began time.Duration // the start of the attempt that was granted

	granted time.Duration // the start of the attempt that the database granted: earlier than began if the hold was handed on
	first   int64         // the token of that grant

	mu        sync.Mutex
	deadline  time.Duration // the trust deadline
	renewedAt time.Duration // the start of the last statement that was acknowledged
	last      bool          // the renewal that set the deadline was shortened by MaxHold
	renewals  int           // on their way
	silence   silence       // of the renewals that the keeper starts; its batch's own
	guarded   bool          // a guard was asked for: never handed on
	cause     error         // the last failed renewal since an acknowledged one
	ended     error         // nil while held
	done      chan struct{}
	contexts  map[*leaseContext]struct{}
	takers    takers
	release   releasing
	sending   call[driver.Hold]

	task keeperTask // the keeper's; guarded by its mutex
}

// releasing is the one release of a lease, which every Release call waits for.
type releasing struct {
	silence  silence
	repeated bool            // what was sent first may have worked: then a repeat finds nothing
	ctx      context.Context // of the first Release; only for what is logged
	begun    bool
	answered bool
	err      error
	done     chan struct{} // made by who must wait
}

func (c *Client) newLease(key string, id driver.HoldID, s settings, began time.Duration, r driver.Result) *Lease {
	l := &Lease{
		c: c,
		hold: driver.Hold{
			Key: key, ID: id, Token: r.Token, Stored: r.Stored,
			TTL: s.ttl, MaxHold: s.maxHold, Keep: s.minHold, Guarded: s.guarded,
		},
		set:       s,
		began:     began,
		renewedAt: began,
		granted:   began,
		first:     r.Token,
		deadline:  began + s.ttl - s.margin,
	}
	l.task.lease = l
	return l
}

// Key is what is held.
func (l *Lease) Key() string { return l.hold.Key }

// Token is the fencing token: positive, and larger than that of every earlier
// hold of the key. Hand it to a resource that refuses smaller ones than it has seen.
//
// Info.Token is what the database has: the lease's, or less. It is less for a hold
// that was handed on inside the program, and with the strategy UniqueInsert of package
// mysqllock, whose rows have a provisional one. Whether a lease or a log line is that
// of a row its hold ID tells: Info.Hold, hold in log lines.
func (l *Lease) Token() int64 { return l.hold.Token }

// Until is the trust deadline by the wall clock, for display: it moves with every
// renewal. To know whether the lease is held, ask Err.
func (l *Lease) Until() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Now().Add(l.deadline - l.c.now())
}

// Done is closed when the hold ends, released or lost. In a process that was
// frozen it is closed as soon as the process runs again; Err knows at once.
func (l *Lease) Done() <-chan struct{} {
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
	l.mu.Lock()
	lost := l.checkLocked()
	err := l.ended
	l.mu.Unlock()
	if lost {
		l.afterLoss(true)
	}
	return err
}

// errNilLease: what Acquire returns beside an error was used.
var errNilLease = fmt.Errorf("%w: the Lease is nil: was the error of Acquire looked at?", ErrInvalid)

// Hold is what the database knows of the lease; for implementations of Store.
func (l *Lease) Hold() driver.Hold { return l.hold }

// checkLocked ends the lease if its trust deadline has passed, and tells whether
// it did; the caller then calls afterLoss without the lock.
func (l *Lease) checkLocked() bool {
	if l.ended != nil || l.c.now() < l.deadline {
		return false
	}
	reason, cause := ReasonExpired, l.cause
	if cause == nil && l.renewals > 0 {
		cause = errUnanswered
	}
	if l.last || l.maxHoldEnd() <= l.deadline {
		reason, cause = ReasonMaxHold, nil
	}
	l.endLocked(&LostError{Key: l.hold.Key, Token: l.hold.Token, Reason: reason, Err: cause})
	return true
}

// maxHoldEnd is the trust deadline that no renewal passes.
func (l *Lease) maxHoldEnd() time.Duration {
	if l.set.maxHold == 0 {
		return 1<<63 - 1
	}
	return l.began + l.set.maxHold - l.set.margin
}

// endLocked is the one end of a lease: Err, Done and the contexts, before any
// statement leaves.
func (l *Lease) endLocked(err error) {
	l.ended = err
	if l.cause != nil {
		l.cause = nil
		l.c.troubles.renew.less(1)
	}
	if l.done != nil {
		close(l.done)
	}
	for ctx := range l.contexts {
		ctx.cancel(err)
	}
	l.contexts = nil
}

// lose ends the lease for a reason that the database gave, with the cause if it named one.
func (l *Lease) lose(reason Reason, cause error, undo bool) {
	l.mu.Lock()
	if l.ended != nil {
		l.mu.Unlock()
		return
	}
	l.endLocked(&LostError{Key: l.hold.Key, Token: l.hold.Token, Reason: reason, Err: cause})
	l.mu.Unlock()
	l.afterLoss(undo)
}

// afterLoss is what the client does about a lease that was lost: count, log, take
// the hold back where the database may still have it, wake the next local waiter.
func (l *Lease) afterLoss(undo bool) {
	c := l.c
	c.keeper.remove(l)
	c.losses.Add(1)
	c.troubles.lost.add("key", l.hold.Key, "token", l.hold.Token, "hold", l.hold.ID, "err", l.ended)
	if undo {
		// Not before the margin has passed: work that looks at Done needs a moment
		// to stop, and the key stays taken meanwhile.
		c.undoer.add(undoTask{hold: l.ending(), acknowledged: true, notBefore: c.now() + l.set.margin, sent: c.now()})
	}
	c.localEnd(l.hold.Key, false)
}

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
		return fmt.Errorf("renew %q: %w: the context is nil", l.hold.Key, ErrInvalid)
	}
	if err := l.Err(); err != nil {
		return fmt.Errorf("renew %q: %w", l.hold.Key, err)
	}
	err := ctx.Err()
	if err == nil {
		_, err = ask(l.c, ctx, l.trustedUntil()-l.c.now(), l.renewNow)
	} else {
		err = waitError(ctx, nil)
	}
	if ended := l.Err(); ended != nil {
		err = ended
	}
	if err != nil {
		return fmt.Errorf("renew %q: %w", l.hold.Key, err)
	}
	return nil
}

// renewNow sends one renewal and plans the next.
func (l *Lease) renewNow(ctx context.Context) (struct{}, error) {
	if !l.renewalStarts() {
		return struct{}{}, l.Err()
	}
	began := l.c.now()
	err := l.c.renew(ctx, []*Lease{l})[0]
	if err == nil {
		l.c.keeper.renewed(l, began+l.c.renewEvery(l.set.ttl), l.trustedUntil())
	}
	return struct{}{}, err
}

// Release ends the hold and frees the key (with MinHold: when that is over). It
// may be called more than once and from a defer; the answer is the same ever
// after: nil, or a *LostError if the hold was lost before. Release of a nil Lease is
// nil: a defer after a failed Acquire does nothing.
//
// It is sent even when ctx is cancelled, and waits for the answer at most
// Options.ReleaseWait and never past the trust deadline. If none came it is nil
// all the same: the holder has stopped, the release is repeated in the
// background, and at the latest the TTL frees the key. Err and Done tell of the
// end before the release is sent.
func (l *Lease) Release(ctx context.Context) error {
	if l == nil {
		return nil
	}
	if ctx == nil {
		ctx = context.Background()
	}
	if l.c.work.enter() {
		defer l.c.work.exit()
	} else {
		l.close()
	}
	l.mu.Lock()
	if l.release.begun {
		l.mu.Unlock()
		return l.releaseAnswer()
	}
	lost := l.checkLocked()
	if l.ended != nil {
		err := l.ended
		l.mu.Unlock()
		if lost {
			l.afterLoss(true)
		}
		return err
	}
	now := l.c.now()
	mayHandOn := l.mayHandOn(now)
	l.endLocked(ErrReleased)
	l.release.begun, l.release.ctx = true, ctx
	trusted := l.deadline
	l.mu.Unlock()

	if mayHandOn && l.c.handOn(l, now) {
		if l.c.debug(ctx) {
			l.c.log.DebugContext(ctx, "handed on", "key", l.hold.Key, "token", l.hold.Token, "hold", l.hold.ID)
		}
		l.releaseAnswered(nil)
		return nil
	}
	l.c.keeper.remove(l)
	l.c.sendRelease(l, trusted)
	return l.releaseAnswer()
}

// releaseAnswered sets the answer of every Release call.
func (l *Lease) releaseAnswered(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.release.answered, l.release.err = true, err
	if l.release.done != nil {
		close(l.release.done)
	}
}

// releaseDone is closed when the answer is there; nil: it is.
func (l *Lease) releaseDone() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.release.answered {
		return nil
	}
	if l.release.done == nil {
		l.release.done = make(chan struct{})
	}
	return l.release.done
}

// releaseAnswer waits for it.
func (l *Lease) releaseAnswer() error {
	if done := l.releaseDone(); done != nil {
		<-done
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.release.err
}
