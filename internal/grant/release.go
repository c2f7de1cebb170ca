package grant

import (
	"context"
	"math/bits"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/batch"
	"github.com/rowlock/rowlock/internal/call"
	"github.com/rowlock/rowlock/internal/logs"
	"github.com/rowlock/rowlock/internal/repeat"
	"github.com/rowlock/rowlock/internal/undo"
)

// releases is the batcher of releases.
func releases(store *call.Store) *batch.Batcher[driver.Hold] {
	l := store.Limits
	return batch.New(batch.Config[driver.Hold]{
		Store: store, Send: store.Release,
		Entry: call.Entry,
		Size:  l.Batch, Alone: l.InFlight == 0, AtOnce: l.InFlight, Most: batch.Most, Slow: l.SlowBatch, Gather: true,
	})
}

// releasing is the one release of a grant, for whose answer every Release of its last
// user waits.
type releasing struct {
	call     batch.Call[driver.Hold]
	by       time.Duration // until when the answer is worth waiting for
	silence  repeat.Silence
	undo     undo.Task       // if it is not answered
	repeated bool            // what was sent first may have worked: then a repeat finds nothing
	async    bool            // nobody waits for the answer
	ctx      context.Context // of the first Release; only for what is logged
	user     User            // that asked for it, where Renewer.watched

	answered bool
	reason   Reason // Released, or that of the loss that was the answer
	cause    error
	done     chan struct{} // made by the first that must wait
}

// Release ends the grant for its user, which is told Released, and sends the release with
// those of other grants. It waits for the answer, for at most patience and never past the
// trust deadline; without one by then the release is repeated in the background. With
// async it does not wait. If user is not the grant's user any more it does nothing. If it is one
// of several it is told HandedOff, and nothing is sent.
func (g *Grant) Release(ctx context.Context, user User, patience time.Duration, async bool) {
	rn := g.rn
	if !g.beginRelease(ctx, user, patience, async) {
		return
	}
	hurried := g.release.call.Class != 0
	switch {
	case g.submitBehindPlace():
	case async, hurried:
		rn.releases.Submit(&g.release.call)
	default:
		rn.releases.SubmitHere(&g.release.call)
	}
	if !async {
		g.awaitRelease(hurried)
	}
}

// submitBehindPlace sends a release behind the answer to what gives up this client's own place in the line of the key: before that it may
// pass the key to the place, which nobody waits for. It waits for half the time that the release has. false: there is no such place.
func (g *Grant) submitBehindPlace() bool {
	rn := g.rn
	left := rn.unresolved.Leaving(g.Hold.Key)
	if left == nil {
		return false
	}
	rn.store.Work.Fork(func() {
		within(left, (g.release.by-rn.store.Now())/2)
		rn.releases.Submit(&g.release.call)
	})
	return true
}

// beginRelease ends the grant for its user, and makes the call of the release; false: there
// is none to send, because the grant had ended or is not user's.
func (g *Grant) beginRelease(ctx context.Context, user User, patience time.Duration, async bool) bool {
	rn := g.rn
	g.mu.Lock()
	if reason, cause, over := g.overLocked(); over {
		end := g.endLocked(reason, cause)
		g.mu.Unlock()
		g.after(end)
		return false
	}
	if g.leaveLocked(user, HandedOff) || g.user != user {
		g.mu.Unlock()
		return false
	}
	trusted := g.deadline
	end := g.endLocked(Released, nil)
	g.release.undo = end.undo
	now := rn.store.Now()
	g.release.ctx, g.release.by, g.release.async = ctx, min(now+patience, trusted), async
	if rn.watched {
		g.release.user = user
	}
	g.release.call = batch.Call[driver.Hold]{Q: end.undo.Hold, Deadline: g.release.by, Owner: (*releaseCall)(g)}
	if trusted < now+patience {
		// Little trust is left. A batch ends with the smallest deadline of its calls, so
		// this one goes with its like; and it waits neither for other batches nor with one
		// of them for longer than that.
		g.release.call.Class = deadlineClass(trusted - now)
	}
	g.mu.Unlock()
	g.after(end)
	g.release.call.Q.Asks, g.release.call.Q.Next = rn.releasing(g)
	return true
}

// awaitRelease waits for the answer to a release that was submitted. hurried: it has a class,
// because little trust was left.
func (g *Grant) awaitRelease(hurried bool) {
	if hurried {
		g.withdrawAt(g.release.by)
	}
	if done := g.releaseDone(); done != nil {
		<-done
	}
}

// Used is a grant with its user.
type Used struct {
	Grant *Grant
	User  User
}

// ReleaseAll is Release of several grants of one client, whose releases leave together: in
// one batch, where they fit. All users are told before any release is sent.
func ReleaseAll(ctx context.Context, all []Used, patience time.Duration, async bool) {
	releaseAll(ctx, all, patience, async, false)
}

// GiveBack is ReleaseAll of grants that reached no caller: a key is free at once, whatever
// MinHold was asked for. It does not wait; see AwaitRelease.
func GiveBack(ctx context.Context, all []Used, patience time.Duration) {
	releaseAll(ctx, all, patience, true, true)
}

func releaseAll(ctx context.Context, all []Used, patience time.Duration, async, back bool) {
	var going []*Grant
	var hurried []bool
	var calls []*batch.Call[driver.Hold]
	for _, u := range all {
		g := u.Grant
		if g.beginRelease(ctx, u.User, patience, async) {
			g.release.call.Q.Undo = g.release.call.Q.Undo || back && g.release.call.Q.Keep > 0
			going, hurried = append(going, g), append(hurried, g.release.call.Class != 0)
			if !g.submitBehindPlace() {
				calls = append(calls, &g.release.call)
			}
		}
	}
	if len(going) == 0 {
		return
	}
	going[0].rn.releases.Submit(calls...) // none, if all go behind a place
	if async {
		return
	}
	for i, g := range going {
		g.awaitRelease(hurried[i])
	}
}

// AwaitRelease waits for the answer to a release that is on its way, at most for d or
// until ctx ends.
func (g *Grant) AwaitRelease(ctx context.Context, d time.Duration) {
	g.mu.Lock()
	released := g.user == nil && g.release.ctx != nil
	g.mu.Unlock()
	if !released {
		return
	}
	done := g.releaseDone()
	if done == nil {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	case <-ctx.Done():
	}
}

// Unawaited reports whether a release of the grant is on its way for whose answer no caller waits.
func (g *Grant) Unawaited() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.user == nil && g.release.async && !g.release.answered
}

// Answer waits for the answer to the release: Released, also where there was none in
// time and where no caller was to wait for it, or the loss that it was. Of a grant that was given
// back it is Released at once.
func (g *Grant) Answer() (Reason, error) {
	g.mu.Lock()
	unasked := g.release.async || g.release.ctx == nil // the latter: no release was begun
	g.mu.Unlock()
	if unasked {
		return Released, nil
	}
	if done := g.releaseDone(); done != nil {
		<-done
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.release.reason, g.release.cause
}

// deadlineClass puts deadlines together of which none is more than twice another.
func deadlineClass(left time.Duration) time.Duration {
	return 1 << bits.Len64(uint64(max(left, 1)))
}

// withdrawAt waits for the answer to the release, and takes the release back if no
// batch has taken it by then. A batch that has is over by then.
func (g *Grant) withdrawAt(by time.Duration) {
	done := g.releaseDone()
	if done == nil {
		return
	}
	if !within(done, by-g.rn.store.Now()) && g.rn.releases.Withdraw(&g.release.call) {
		now := g.rn.store.Now()
		(*releaseCall)(g).Answered(driver.Result{Err: batch.ErrTooLate}, now, now)
	}
}

// within waits until done is closed, at most for d; false: it was not.
func within(done <-chan struct{}, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
		return false
	}
}

// releaseCall is a grant as the owner of its release.
type releaseCall Grant

// Patience implements batch.Owner.
func (r *releaseCall) Patience(now time.Duration) time.Duration { return r.release.by - now }

// Answered implements batch.Owner.
func (r *releaseCall) Answered(res driver.Result, sent, got time.Duration) {
	g := (*Grant)(r)
	rn, ctx, h := g.rn, g.release.ctx, &g.release.call.Q
	if res.Status == driver.Unknown && g.repeat(res.Err, got-sent) {
		return
	}
	status := res.Status
	if g.release.repeated && status != driver.Unknown {
		status = driver.Released
	}
	reason, cause, late := Released, error(nil), false
	switch status {
	case driver.Released:
		rn.report.Release.OK()
		rn.steps.Step(ctx, "released", h, h.Token)
	case driver.Taken, driver.Forced, driver.Removed:
		rn.losses.Add(1)
		reason, cause = lossOf(status), res.Err
		if g.release.async {
			rn.report.Lost.Add(ctx, logs.Attrs(h.Key, h.Mode, "token", h.Token, "hold", h.ID, "err", rn.lost(h.Key, h.Token, reason, cause))...)
		}
	default:
		late = true
		task := g.release.undo
		task.Hold, task.Ctx = *h, ctx
		task.Hold.Next = nil
		refused := rn.unresolved.AddFailed(task, res.Err)
		if !refused {
			rn.late.Add(1)
			rn.report.Release.Fail(ctx, 1, logs.Attrs(h.Key, h.Mode, "token", h.Token, "hold", h.ID, "err", res.Err)...)
		}
	}
	known := status == driver.Released && (h.Asks || res.Wanted.Client != 0)
	outcome := Outcome{Hint: res.Wanted, Known: known, Place: res.Place, Standing: res.Standing}
	if h.Next != nil {
		outcome.Next, outcome.Stands, outcome.Unknown = h.Next.ID, res.Status == driver.Released, late || g.release.repeated
	}
	rn.ended(g, outcome)
	if rn.watched {
		g.tellReleased(reason, cause, late)
	}
	g.releaseAnswered(reason, cause)
}

// repeat sends the release once more if its connection was silent and its caller still
// waits.
func (g *Grant) repeat(err error, took time.Duration) bool {
	rn, r := g.rn, &g.release
	pause := r.silence.Pause(took)
	if !driver.IsSilent(err) || rn.store.Now()+pause >= r.by {
		return false
	}
	r.repeated = r.repeated || !driver.IsNotApplied(err)
	rn.store.Work.ForkAfter(pause, func() {
		r.call.Class = deadlineClass(r.by - rn.store.Now())
		rn.releases.Submit(&r.call)
	})
	return true
}

// releaseAnswered sets the answer of every Release call.
func (g *Grant) releaseAnswered(reason Reason, cause error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.release.answered, g.release.reason, g.release.cause = true, reason, cause
	if g.release.done != nil {
		close(g.release.done)
	}
}

// releaseDone is closed when the answer is there; nil: it is.
func (g *Grant) releaseDone() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.release.answered {
		return nil
	}
	if g.release.done == nil {
		g.release.done = make(chan struct{})
	}
	return g.release.done
}
