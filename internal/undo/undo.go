package undo

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/call"
	"github.com/rowlock/rowlock/internal/logs"
	"github.com/rowlock/rowlock/internal/repeat"
)

// Unresolved has the holds whose outcome is unknown or that no caller wants: attempts
// without a reply, grants whose caller had left, lost leases, releases that were not
// answered. Its goroutine runs only while there are any.
type Unresolved struct {
	store  *call.Store
	report *logs.Report
	log    *slog.Logger

	mu      sync.Mutex
	tasks   []*Task            // in the order of Add
	byKey   map[string][]*Task // the same
	running bool
	wake    chan struct{}
	empty   chan struct{} // closed when the last task ends; nil: nobody asked
	stopped bool
}

// Task is one hold to end.
type Task struct {
	Hold driver.Hold

	// Ctx is that of the call which wanted the hold or its end, for the lines of the log; nil: no caller's.
	Ctx context.Context

	// Place: what is to be ended stands in the line of its key, and has no hold as far as is known.
	Place bool

	// MayCome: attempts with the ID of the hold were sent again and again, because it stood in a line, and one of them was not answered.
	// A store that sends an ID once cannot tell, so its Final does not count.
	MayCome bool

	// Acknowledged: the grant was seen, so any answer to the undo is final.
	// Otherwise an undo that found nothing may have overtaken the attempt, and is
	// repeated until an attempt still on its way would have arrived.
	Acknowledged bool

	Sent      time.Duration // the clock read after what may have made or prolonged the hold was last sent
	Prolonged bool          // perhaps, by a renewal that is on its way, or of which nobody knows
	NotBefore time.Duration // when the next try is due
	pause     time.Duration // before the try after that
	failed    error         // why the last try was not answered; guarded by Unresolved.mu
	failing   bool          // it was counted as failing
	answered  bool          // a try was; guarded by Unresolved.mu
	left      chan struct{} // of a Place: closed when it was answered; guarded by Unresolved.mu
	silence   repeat.Silence

	// refused: the last try was refused for good, and nothing is on its way. It is tried
	// again now and then, because somebody may mend what it needs (a privilege), but
	// Close does not wait for that.
	refused error
	logged  bool // the refusal is in the log
}

func (t *Task) context() context.Context { return cmp.Or(t.Ctx, context.Background()) }

const (
	firstPause = 20 * time.Millisecond
	lastPause  = 5 * time.Second
	timeout    = 3 * time.Second

	forever = time.Duration(1<<63 - 1)
)

var errMayArrive = errors.New("an attempt was not answered, and may still arrive")

// New makes an Unresolved. It starts nothing.
func New(store *call.Store, report *logs.Report, log *slog.Logger) *Unresolved {
	return &Unresolved{store: store, report: report, log: log, byKey: make(map[string][]*Task), wake: make(chan struct{}, 1)}
}

// Len is how many holds are to be undone, but for those of attempts that may still come: see awaited.
func (u *Unresolved) Len() (n int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, t := range u.tasks {
		if t.refused != nil || u.awaited(t) {
			n++
		}
	}
	return n
}

// isRefusal reports whether err says that a release will fail the same way next time,
// and that it did nothing.
func isRefusal(err error) bool { return driver.IsLasting(err) && driver.IsNotApplied(err) }

// AddFailed is Add for a hold whose release failed with err. It reports whether the
// database refused it for good, which it logs.
func (u *Unresolved) AddFailed(t Task, err error) (refused bool) {
	refused = isRefusal(err)
	if refused {
		u.refuse(&t, err)
	}
	t.failed = err
	u.Add(t)
	return refused
}

// refuse notes the refusal of a release or undo.
func (u *Unresolved) refuse(t *Task, err error) {
	t.refused = err
	pause := cmp.Or(t.pause, firstPause) // what counts as lasting may pass all the same
	t.NotBefore, t.pause = u.store.Now()+pause, min(2*pause, lastPause)
	if !t.logged {
		t.logged = true
		u.report.Refused.Add(t.context(), logs.Attrs(t.Hold.Key, t.Hold.Mode, "token", t.Hold.Token, "hold", t.Hold.ID, "err", err)...)
	}
}

// Add takes a hold on, whose first try is due at once or at NotBefore.
func (u *Unresolved) Add(t Task) {
	t.pause = cmp.Or(t.pause, firstPause)
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.stopped {
		return // Close has given up; the TTL frees the key
	}
	if t.Place {
		t.left = make(chan struct{})
	}
	u.tasks = append(u.tasks, &t)
	u.byKey[t.Hold.Key] = append(u.byKey[t.Hold.Key], &t)
	if !u.running {
		u.running = true
		go u.run()
		return
	}
	select {
	case u.wake <- struct{}{}:
	default:
	}
}

// arrival is when a statement sent before t.Sent has arrived or never will.
func (u *Unresolved) arrival(t *Task) time.Duration {
	return t.Sent + t.Hold.TTL + u.store.Limits.LockWait
}

// run sends what is due, in batches, until nothing is left.
func (u *Unresolved) run() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		batch, next := u.due()
		if len(batch) > 0 {
			u.send(batch)
			continue
		}
		if next == forever {
			return
		}
		timer.Reset(max(next-u.store.Now(), 0))
		select {
		case <-timer.C:
		case <-u.wake:
		case <-u.store.Ended():
			return
		}
	}
}

// due takes the tasks that are due, or says when the first one will be. With no
// task left it ends the run.
func (u *Unresolved) due() (batch []*Task, next time.Duration) {
	u.mu.Lock()
	defer u.mu.Unlock()
	next = forever
	if u.empty != nil && u.settled() {
		close(u.empty)
		u.empty = nil
	}
	if len(u.tasks) == 0 || u.stopped {
		u.running = false
		return nil, next
	}
	now := u.store.Now()
	var entries call.Entries
	for _, t := range u.tasks {
		if t.NotBefore > now {
			next = min(next, t.NotBefore)
		} else if len(batch) < u.store.Limits.Batch && entries.Add(call.Entry(&t.Hold)) {
			batch = append(batch, t)
		}
	}
	return batch, next
}

func (u *Unresolved) send(batch []*Task) {
	holds := make([]driver.Hold, len(batch))
	for i, t := range batch {
		holds[i] = t.Hold
	}
	a := u.store.Undo(holds, timeout)
	start, now := a.Sent, a.Got
	ended := make(map[*Task]bool)
	for i, t := range batch {
		r := a.Results[i]
		final := u.final(t, r, start, now)
		refused := !final && isRefusal(r.Err)
		u.fails(t, !final && !refused && r.Err != nil)
		if final {
			ended[t] = true
			u.log.DebugContext(t.context(), "hold undone", logs.Attrs(t.Hold.Key, t.Hold.Mode, "hold", t.Hold.ID, "answer", r.Status)...)
			continue
		}
		if refused {
			u.mu.Lock()
			u.refuse(t, r.Err)
			u.mu.Unlock()
			continue
		}
		u.mu.Lock()
		t.refused, t.failed = nil, r.Err
		u.mu.Unlock()
		if r.Err != nil {
			u.report.Undo.Fail(t.context(), 0, logs.Attrs(t.Hold.Key, t.Hold.Mode, "hold", t.Hold.ID, "err", r.Err)...)
		}
		if r.Status != driver.Unknown {
			u.mu.Lock()
			u.answer(t)
			u.mu.Unlock()
		}
		if driver.IsSilent(r.Err) {
			t.NotBefore = now + t.silence.Pause(now-start)
			continue
		}
		t.NotBefore = now + t.pause
		t.pause = min(t.pause*2, lastPause)
		if at := u.arrival(t) + time.Millisecond; t.NotBefore > at && now < at {
			t.NotBefore = at // the last one that is needed
		}
	}
	if a.Err == nil {
		u.report.Undo.OK()
	}
	u.remove(ended)
}

// fails notes whether the undo is answered.
func (u *Unresolved) fails(t *Task, now bool) {
	switch {
	case now && !t.failing:
		u.report.Undo.More(1)
	case !now && t.failing:
		u.report.Undo.Less(1)
	}
	t.failing = now
}

// final reports whether the hold of t cannot exist any more after the answer r to an
// undo that was sent at start.
func (u *Unresolved) final(t *Task, r driver.Result, start, now time.Duration) bool {
	gone := u.arrival(t) + max(t.Hold.TTL, t.Hold.Keep) // even a late attempt has expired by now
	if r.Status == driver.Unknown {
		return now > gone
	}
	return r.Final && !t.MayCome || t.Acknowledged || start > u.arrival(t) || now > gone
}

// Unanswered reports whether there is a hold of key whose undo was not answered yet.
func (u *Unresolved) Unanswered(key string) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return slices.ContainsFunc(u.byKey[key], func(t *Task) bool { return !t.answered })
}

// answer notes that a try was answered. Called under u.mu.
func (u *Unresolved) answer(t *Task) {
	if t.answered = true; t.left != nil {
		close(t.left)
		t.left = nil
	}
}

// Leaving is closed when the database has answered that a place in the line of key is given up; nil: none is. A release before that
// may pass the key to the place.
func (u *Unresolved) Leaving(key string) <-chan struct{} {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, t := range u.byKey[key] {
		if t.left != nil && !u.stopped {
			return t.left
		}
	}
	return nil
}

func (u *Unresolved) remove(ended map[*Task]bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	has := func(t *Task) bool { return ended[t] }
	u.tasks = slices.DeleteFunc(u.tasks, has)
	for t := range ended {
		u.answer(t)
		key := t.Hold.Key
		if u.byKey[key] = slices.DeleteFunc(u.byKey[key], has); len(u.byKey[key]) == 0 {
			delete(u.byKey, key)
		}
	}
}

// settled reports whether no task is left that Close should wait for. Called under u.mu.
func (u *Unresolved) settled() bool { return !slices.ContainsFunc(u.tasks, u.awaited) }

// awaited reports whether Close should wait for t: not for an attempt that may still come, where nothing was left when the database was asked,
// or nothing is to be asked yet.
func (u *Unresolved) awaited(t *Task) bool {
	return t.refused == nil && !(t.MayCome && (t.answered || t.NotBefore > u.store.Now()))
}

// Wait waits until no task is left but those that the database refuses. When ctx ends
// first, or for those, it lists the keys that are left, and why the last of them is. No task
// is taken on after it.
func (u *Unresolved) Wait(ctx context.Context) (left []string, why error) {
	u.mu.Lock()
	empty := u.empty
	if empty == nil && !u.settled() {
		empty = make(chan struct{})
		u.empty = empty
	}
	u.mu.Unlock()
	if empty != nil {
		select {
		case <-empty:
		case <-ctx.Done():
		}
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.stopped = true
	for _, t := range u.tasks {
		if t.refused == nil && !u.awaited(t) {
			continue
		}
		left = append(left, t.Hold.Key)
		if err := cmp.Or(t.refused, t.failed); err != nil {
			why = err
		} else if t.answered {
			why = cmp.Or(why, errMayArrive)
		}
	}
	return left, why
}
