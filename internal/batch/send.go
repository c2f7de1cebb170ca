package batch

import (
	"slices"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/call"
)

// run sends batches until nothing waits.
func (s *batch[Q]) run() {
	s.gather()
	for s.take() {
		s.send(s.since)
	}
}

// runOnce sends the next batch and leaves those after it to another goroutine.
func (s *batch[Q]) runOnce() {
	s.gather()
	if !s.take() {
		return
	}
	s.send(s.since)
	if s.take() {
		s.of.c.Store.Work.Fork(func() {
			s.send(s.of.c.Store.Now())
			s.run()
		})
	}
}

// gather waits for the calls of others that are about to come.
func (s *batch[Q]) gather() {
	if s.full == nil {
		return
	}
	t := time.NewTimer(s.wait)
	defer t.Stop()
	select {
	case <-s.full:
	case <-t.C:
	}
}

// take chooses the calls: the first that waits and those behind it that have the same
// class and other keys. The batch is over when nothing is left, and one that was extra when
// others are on their way.
func (s *batch[Q]) take() bool {
	b := s.of
	b.mu.Lock()
	defer b.mu.Unlock()
	if s.full != nil {
		s.full, b.delay.full = nil, nil
	}
	b.sending = slices.DeleteFunc(b.sending, func(o *batch[Q]) bool { return o == s })
	clear(s.calls)
	clear(s.qs)
	s.calls, s.qs = s.calls[:0], s.qs[:0]
	now := b.c.Store.Now()
	more := len(b.waiting) > 0
	if more && s.extra {
		more, s.extra = b.mayStart(now)
	}
	if !more {
		b.free = append(b.free, s)
		return false
	}
	b.sort()
	s.since = now
	b.sending = append(b.sending, s)
	if len(b.waiting) == 1 || b.c.Alone {
		s.calls = append(s.calls, b.waiting[0])
		b.waiting = slices.Delete(b.waiting, 0, 1)
	} else {
		s.choose()
	}
	if next := b.start(now); next != nil { // for those that cannot go with the others
		b.c.Store.Work.Fork(next.start)
	}
	return true
}

// choose takes the calls of one class out that may go together. Called under mu.
func (s *batch[Q]) choose() {
	b := s.of
	class := b.waiting[0].Class
	var entries call.Entries
	rest := b.waiting[:0]
	for _, q := range b.waiting {
		if len(s.calls) < b.c.Size && q.Class == class && entries.Add(b.c.Entry(&q.Q)) {
			s.calls = append(s.calls, q)
		} else {
			rest = append(rest, q)
		}
	}
	clear(b.waiting[len(rest):])
	b.waiting = rest
}

// send sends what was taken, now, and hands out the answers.
func (s *batch[Q]) send(now time.Duration) {
	b := s.of
	patience := time.Duration(forever)
	going := s.calls[:0]
	for _, q := range s.calls {
		p := q.Owner.Patience(now)
		if p <= 0 {
			q.Owner.Answered(driver.Result{Err: ErrTooLate}, now, now)
			continue
		}
		patience = min(patience, p)
		s.qs = append(s.qs, q.Q)
		going = append(going, q)
	}
	n := len(s.calls)
	s.calls = going
	if len(going) == 0 {
		b.answered(n, 0)
		return
	}
	a := b.c.Send(s.qs, patience)
	b.answered(n, a.Got-a.Sent)
	for i, q := range s.calls {
		q.Owner.Answered(a.Results[i], a.Sent, a.Got)
	}
}

// answered notes that n calls were answered, after a batch that took so long; 0:
// without one.
func (b *Batcher[Q]) answered(n int, took time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.delay.leave(n)
	if took > 0 {
		b.delay.took(took)
	}
}
