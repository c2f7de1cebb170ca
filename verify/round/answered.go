package round

import (
	"slices"

	"github.com/rowlock/rowlock/verify/history"
)

// answered counts the operations of each space that a server answered. What failed, or is unknown, is not among them, nor what the
// client may have known by itself: that a lease is lost, that a wait was given up behind a holder, a lease that was handed off, or joined
// by a reader, in memory, and the release that it took the place of.
func answered(events []history.Event) map[string]int {
	type phase struct {
		space, key, client string
		token              int64
	}
	n, read := map[string]int{}, map[phase]bool{}
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
			local := e.Token%tokensOfAGrant != 0
			if e.Mode == history.Shared {
				p := phase{e.Space, e.Key, e.Client, e.Token}
				local = read[p]
				read[p] = true
			}
			if local {
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

// tokensOfAGrant is the range of tokens of a grant: the database grants the first, the client hands off the others.
const tokensOfAGrant = 1024
