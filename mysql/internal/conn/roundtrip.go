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

// Trip is how long a statement that waits for nothing takes to one server and back.
// No single answer tells: a busy machine makes each longer, and nothing makes one
// shorter. So the shortest of late counts, whatever connection it came on. What a
// connection that was opened in a busy moment saw of it is corrected by the next
// answers, and a server to which the way has become long is known to be distant after
// two spans.
type Trip struct {
	mu    sync.Mutex
	Since time.Time        // when the present span began
	Least [2]time.Duration // of the present span, and of the one before; 0: no answer
}

// tripTo is the trip to the server with that name.
func (d *DB) tripTo(server string) *Trip {
	t, _ := d.trips.LoadOrStore(server, new(Trip))
	return t.(*Trip)
}

// answered notes how long an answer took.
func (t *Trip) answered(now time.Time, took time.Duration) {
	took = max(took, 1)
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case now.Sub(t.Since) >= tripSpan:
		t.Least = [2]time.Duration{took, t.Least[0]}
		t.Since = now
	case took < t.Least[0]:
		t.Least[0] = took
	}
}

// shortest is the shortest answer of late.
func (t *Trip) shortest() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.Least[1] == 0 {
		return t.Least[0]
	}
	return min(t.Least[0], t.Least[1])
}

// distant reports whether the server is too far away for KILL to be of use.
func (t *Trip) distant() bool { return t.shortest() > FarTrip }
