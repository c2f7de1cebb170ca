package rowlockcli

import (
	"time"

	"github.com/rowlock/rowlock/driver"
)

// verdict says what a second look at a held key has shown.
type verdict uint8

const (
	silent   verdict = iota // nobody has renewed the lease
	renewed                 // the holder lives
	changed                 // it is not held any more, or by another
	oneLives                // of several holders
	unclear                 // of several holders the last lease was not renewed; others may have been
)

// aliveWait is how long a holder that lives may take until it renews its lease: it does so in each
// third of its TTL. Of a lease that ends in left a third was at least left/2 ago, so the next one is
// nearer than that; 2 s are for a database that answers slowly.
func aliveWait(left time.Duration) time.Duration { return left/2 + 2*time.Second }

// endsAfter reports whether the lease ends later than it could have ended by an earlier answer: it was
// renewed. A fiftieth of the time between is for clocks that run at different rates, a tenth of a
// second for a server that reads its clock now and then only.
func (l look) endsAfter(earlier look) bool {
	tolerance := 100*time.Millisecond + l.begin.Sub(earlier.end)/50
	return l.begin.Add(l.Left).After(earlier.end.Add(earlier.Left + tolerance))
}

// sameAs reports whether both looks found the same hold, or phase: that has a token, and no ID.
func (l look) sameAs(other look) bool {
	return l.Hold == other.Hold && (l.Hold != (driver.HoldID{}) || l.Token == other.Token)
}

// alive watches a key that is held until its lease is renewed, or for patience.
func (q *query) alive(first look, patience time.Duration) (verdict, look, error) {
	last := first
	for end := time.Now().Add(patience); ; {
		if err := q.pause(min(250*time.Millisecond, max(time.Until(end), time.Millisecond))); err != nil {
			return silent, last, err
		}
		var err error
		if last, err = q.look(first.Key); err != nil {
			return silent, last, err
		}
		several := first.Readers+first.Slots > 1 || last.Readers+last.Slots > 1
		switch {
		case !last.Held || last.Kept || !last.sameAs(first):
			return changed, last, nil
		case last.endsAfter(first) && several:
			return oneLives, last, nil
		case last.endsAfter(first):
			return renewed, last, nil
		case time.Now().After(end) && several:
			return unclear, last, nil
		case time.Now().After(end):
			return silent, last, nil
		}
	}
}
