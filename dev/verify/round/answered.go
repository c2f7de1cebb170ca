package round

import (
	"slices"

	"github.com/rowlock/rowlock/dev/verify/history"
)

// answered counts the operations of each space that a server answered. What failed, or is unknown, is not among them, nor what the
// client may have known by itself: that a lease is lost, that a wait was given up behind a holder, a lease that was handed off, or joined
// by a reader, in memory, and the release that it took the place of.
func answered(events []history.Event) map[string]int {
	n, read := map[string]int{}, reads{}
	for _, e := range events {
		if e.End == 0 || !slices.Contains(operations, e.Kind) {
			continue
		}
		switch e.Result {
		case history.OK:
			n[e.Space]++
			if e.Kind != history.Acquire {
				continue
			}
			if read.local(e) {
				n[e.Space] -= 2
			}
		case history.Refused:
			if e.Try {
				n[e.Space]++
			}
		case history.Stale, history.Conflict, history.Ran:
			n[e.Space]++
		}
	}
	return n
}

// phase is a hold of a client's readers.
type phase struct {
	space, key, client string
	token              int64
}

// reads are the phases that were seen.
type reads map[phase]bool

// local reports whether the client made a grant by itself: it handed a lease off, or let a reader join.
func (r reads) local(e history.Event) (joined bool) {
	if e.Mode != history.Shared {
		return e.Token%tokensOfAGrant != 0
	}
	p := phase{e.Space, e.Key, e.Client, e.Token}
	joined, r[p] = r[p], true
	return joined
}

// tokensOfAGrant is the range of tokens of a grant: the database grants the first, the client hands off the others.
const tokensOfAGrant = 1024
