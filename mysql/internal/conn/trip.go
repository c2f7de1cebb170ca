package conn

import (
	"sync"
	"time"
)

// FarTrip is the trip above which no statement is ended by KILL, which would come
// later than the answers that it is to hasten; LockWait bounds the waits there.
const FarTrip = 50 * time.Millisecond

// tripSpan is for how long at least the shortest answer tells what the trip is; at
// most twice as long, while there are others.
const tripSpan = ForgetAfter

// trip is how long a statement that waits for nothing takes to one server and back.
// No single answer tells: a busy machine makes each longer, and nothing makes one
// shorter. So the shortest of late counts, whatever connection it came on. What a
// connection that was opened in a busy moment saw of it is corrected by the next
// answers, and a server to which the way has become long is known to be distant after
// two spans.
type trip struct {
	mu    sync.Mutex
	since time.Time        // when the present span began
	least [2]time.Duration // of the present span, and of the one before; 0: no answer
}

// tripTo is the trip to the server with that name.
func (d *DB) tripTo(server string) *trip {
	t, _ := d.trips.LoadOrStore(server, new(trip))
	return t.(*trip)
}

// answered notes how long an answer took.
func (t *trip) answered(now time.Time, took time.Duration) {
	took = max(took, 1)
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case now.Sub(t.since) >= tripSpan:
		t.least = [2]time.Duration{took, t.least[0]}
		t.since = now
	case took < t.least[0]:
		t.least[0] = took
	}
}

// shortest is the shortest answer of late.
func (t *trip) shortest() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.least[1] == 0 {
		return t.least[0]
	}
	return min(t.least[0], t.least[1])
}

// distant reports whether the server is too far away for KILL to be of use.
func (t *trip) distant() bool { return t.shortest() > FarTrip }
