package ui

import (
	"time"

	"github.com/rowlock/rowlock/driver"
)

// row is a key as a poll has found it, and what the polls before know of its hold.
type row struct {
	driver.Info
	begin, at time.Time // of the poll

	first   time.Time     // when this hold was first seen
	renewed time.Time     // when it was last noticed that it was renewed; zero: not yet
	most    time.Duration // the longest Left that was seen of it
	life    life
	waited  time.Time // since when somebody waited at each poll; zero: nobody does
	need    need
	seen    *appearance // what viewers see; the same one as long as that is the same
}

// life is what watching a hold has shown.
type life uint8

const (
	noLife  life = iota // it is not held
	unclear             // it was not watched for long enough
	lives               // the lease is renewed
	silent              // a holder that lives would have renewed it by now
)

// isHold reports whether somebody has the key, who would renew it.
func (r *row) isHold() bool { return r.Held && !r.Kept }

// end is when the hold is over unless it is renewed, by this machine's clock.
func (r *row) end() time.Time { return r.at.Add(r.Left) }

// sameHold reports whether the key has the hold that it had.
func (r *row) sameHold(before *row) bool {
	return r.isHold() && before.isHold() && r.Hold == before.Hold && r.Token == before.Token
}

// follow takes over what is known of the hold. A lease was renewed if it ends later than it could have
// ended by the poll before: a fiftieth of the time between is for clocks that run at different
// rates, a tenth of a second for a server that reads its clock now and then only.
func (r *row) follow(before *row) {
	r.seen = before.seen
	if !r.waited.IsZero() && !before.waited.IsZero() {
		r.waited = before.waited
	}
	if !r.sameHold(before) {
		return
	}
	r.first, r.renewed, r.most = before.first, before.renewed, max(before.most, r.Left)
	tolerance := 100*time.Millisecond + r.begin.Sub(before.at)/50
	if r.begin.Add(r.Left).After(before.end().Add(tolerance)) {
		r.renewed = r.at
	}
}

// unknownFor is how long the hold has to be watched until a holder that lives has renewed its lease: one that does so renews
// it in each third of its TTL. Of a lease that ended in most when it was first seen a third was at least most/2; 2 s are for
// a database that answers slowly.
func (r *row) unknownFor(refresh time.Duration) time.Duration {
	return r.most/2 + 2*time.Second + refresh - r.at.Sub(later(r.first, r.renewed))
}

// settle finds out whether the holder lives.
func (r *row) settle(refresh time.Duration) {
	r.life = noLife
	if r.isHold() {
		switch {
		case r.unknownFor(refresh) < 0:
			r.life = silent
		case !r.renewed.IsZero():
			r.life = lives
		default:
			r.life = unclear
		}
	}
	r.need = r.needOf()
	if a := appearanceOf(r); r.seen == nil || !r.seen.like(a) {
		r.seen = a
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
