package key

import (
	"time"

	"github.com/rowlock/rowlock/driver"
)

// How often an entry in a line looks, and how long it and the claim last. How often what fails is sent again is in backoff.go.

const (
	// The pace of looks: of the first in the line between firstPace and lastPace, slower for a hold that lasts; of the
	// others slower by place, up to farPace.
	firstPace  = 2 * time.Millisecond
	lastPace   = 50 * time.Millisecond
	longPace   = 70 * time.Millisecond
	placePace  = 125 * time.Millisecond
	farPace    = time.Second
	pinnedPace = 50 * time.Millisecond
	soon       = 100 * time.Millisecond // a time that needs no look on the way
	bellPace   = 20 * time.Millisecond  // beside a wait for the turn: that may be another's than the holder's

	// fullPause is the time between two tries of a client that finds the line full.
	fullPause = 500 * time.Millisecond
)

// EntryTime is how long an entry of this client is alive, refreshed at two fifths of it: the longer it waits the longer. It doubles, so
// that those that began at about the same time are alike, which a Store can refresh together.
func (s *Line) EntryTime(now time.Duration) time.Duration {
	d := driver.EntryTime
	for s.stands > 0 && 2*d <= now-s.stands && d < driver.MaxEntryTime {
		d *= 2
	}
	return min(d, driver.MaxEntryTime)
}

// Claim is for how long a passed key is this client's, so that some look of it finds it. slowest is what a statement may take.
func (s *Line) Claim(slowest time.Duration) time.Duration {
	return min(max(time.Second, 6*slowest, 5*s.longest()/2), driver.MaxClaim)
}

// refreshes reports whether the entry is to be refreshed.
func (s *Line) refreshes(now time.Duration) bool {
	return s.Place > 0 && !s.unsure && now >= s.keptUntil && now-s.asked >= s.EntryTime(s.asked)*2/5
}

// least is the shortest time between two looks: not before the last one could be answered.
func (s *Line) least() time.Duration { return min(max(firstPace, s.Trip), lastPace) }

// longest is the longest time between two looks of an entry at its place.
func (s *Line) longest() time.Duration {
	if s.Place <= 1 {
		return longPace
	}
	return max(min(time.Duration(s.Place)*placePace, farPace), 2*s.least())
}

// pace is the time to the next look. A program looks when the key should be passed to it; where the server can wake the first of the line half a turn
// before that, when it is the first.
func (s *Line) pace(now time.Duration, env Env) (time.Duration, Jitter) {
	age, waited := now-s.began, now-s.stands
	if s.began == 0 {
		age = waited
	}
	late := age - s.turn // how long the present hold lasts beyond the usual
	switch {
	case s.Pinned:
		return pinnedPace, JitterThird
	case s.turn > 0 && s.Place > 1:
		d := time.Duration(s.Place-1)*s.turn + max(-late, late/2)
		if env.Wakes {
			d -= s.turn / 2
		}
		if d > soon {
			d = (d - s.turn/2) * 3 / 4 // the looks that follow come nearer to that moment
		}
		return min(max(d, 2*s.least()), s.longest()), NoJitter
	case s.Place > 1:
		return min(max(waited/8, age/16, 2*s.least()), s.longest()), JitterThird
	case s.turn > 0 && late < -s.least():
		return min(-late, lastPace), NoJitter
	case s.turn > 0:
		return max(s.least(), min(max(late/2, s.turn/16), lastPace), min(age/100, longPace)), NoJitter
	default:
		return max(s.least(), min(age/24, lastPace), min(age/100, longPace)), JitterThird
	}
}
