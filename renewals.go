package rowlock

import (
	"cmp"
	"slices"
	"sync"
	"time"
)

// renewals sends the batches that the keeper has collected, few at a time: all at
// once they need as many connections as there are batches, and keep the server so
// busy that each takes longer than all of them in turn. One that waits loses
// nothing: its trust is counted from when it is sent, and the keeper watches the
// deadlines meanwhile.
type renewals struct {
	c *Client

	mu      sync.Mutex
	waiting []*renewal
	flights []*renewal
	timer   *time.Timer // asks again
}

// renewal is one batch.
type renewal struct {
	leases   []*Lease
	deadline time.Duration // the first of theirs
	sent     time.Duration
}

const (
	// stuckRenewal is the age from which one batch keeps no other back: a key in it is
	// blocked, or its connection is dead. More than one of that age look like a server
	// that is slow, and keep others back until they are of the age of deadRenewal.
	stuckRenewal = 100 * time.Millisecond
	deadRenewal  = time.Second

	// patientRenewal is the trust that must be left for a batch to wait its turn.
	patientRenewal = time.Second
)

func (r *renewals) add(batches [][]*Lease) {
	if len(batches) == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, leases := range batches {
		deadline := never
		for _, l := range leases {
			deadline = min(deadline, l.trustedUntil())
		}
		r.waiting = append(r.waiting, &renewal{leases: leases, deadline: deadline})
	}
	slices.SortStableFunc(r.waiting, func(a, b *renewal) int { return cmp.Compare(a.deadline, b.deadline) })
	r.start()
}

// start sends what may leave, the batch with the least trust first. Called under
// r.mu.
func (r *renewals) start() {
	for len(r.waiting) > 0 {
		b, now := r.waiting[0], r.c.now()
		if wait := r.full(now); wait > 0 && b.deadline-now > patientRenewal {
			if r.timer == nil {
				r.timer = time.AfterFunc(wait, r.again)
			}
			return
		}
		r.waiting = r.waiting[1:]
		b.sent = now
		sending := r.c.work.goWork(func() {
			r.c.sendRenewal(b.leases)
			r.landed(b)
		})
		if !sending { // a closed client renews no more
			return
		}
		r.flights = append(r.flights, b)
	}
}

// full tells for how long no other batch may leave; then is the time to ask again.
func (r *renewals) full(now time.Duration) time.Duration {
	young, old, wait := 0, 0, deadRenewal
	for _, b := range r.flights {
		switch age := now - b.sent; {
		case age < stuckRenewal:
			young++
			wait = min(wait, stuckRenewal-age)
		case age < deadRenewal:
			old++
			wait = min(wait, deadRenewal-age)
		}
	}
	if most := r.c.limits.Flights; most == 0 || young < most && young+old <= most {
		return 0
	}
	return wait
}

func (r *renewals) again() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.timer = nil
	r.start()
}

func (r *renewals) landed(b *renewal) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.flights = slices.DeleteFunc(r.flights, func(f *renewal) bool { return f == b })
	r.start()
}
