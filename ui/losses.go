package ui

import (
	"slices"
	"sync"
	"time"
)

// maxLosses is how many are kept.
const maxLosses = 200

// loss is a hold that ended otherwise than by a release.
type loss struct {
	At    time.Time
	Key   string
	Owner string
	Token int64
	How   string // the rest of a sentence about the owner's lease
	Here  bool   // a user of the page has ended it
}

// losses are the last ones, as the polls have seen them and as users of the page have caused them.
type losses struct {
	mu     sync.Mutex
	list   []loss // the newest first
	number int    // changes with the list
}

// add notes one, unless it is known.
func (l *losses) add(x loss) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !slices.ContainsFunc(l.list, x.sameHold) {
		l.insert(x)
	}
}

// forced notes that a user of the page has ended a hold, which a poll may have seen before.
func (l *losses) forced(x loss) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list = slices.DeleteFunc(l.list, x.sameHold)
	l.insert(x)
}

// fromPage reports whether a user of the page has ended the hold with that token.
func (l *losses) fromPage(key string, token int64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(l.list, func(x loss) bool { return x.Here && x.Key == key && x.Token == token })
}

func (l *losses) insert(x loss) {
	l.list = slices.Insert(l.list, 0, x)
	l.list = l.list[:min(len(l.list), maxLosses)]
	l.number++
}

// newest are the last ones, and a number that changes with them.
func (l *losses) newest(n int) ([]loss, int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.list[:min(n, len(l.list))]), l.number
}

// compare notes how the hold of a key has ended between two polls, if that was no release. It says
// nothing where it may have been one.
func (l *losses) compare(before, now *row) {
	if !before.isHold() || now.sameHold(before) {
		return
	}
	x := loss{At: now.at, Key: before.Key, Owner: before.Owner, Token: before.Token}
	// A release leaves the token as it is, and Since is later after a grant. (Of readers and slots it was that of the oldest.)
	forced := !now.Held && now.Token > before.Token && !now.Since.After(before.Since)
	// A lease that its holder renews never comes near its end.
	expired := !before.end().After(now.at) && before.Left < before.most/2
	switch {
	case forced:
		x.How = "was ended by force"
	case expired && now.isHold():
		x.How = "was not renewed and ran out; " + printable(now.Owner) + " has the key since"
	case expired:
		x.How = "was not renewed and ran out"
	default:
		return
	}
	l.add(x)
}
