package ui

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// runbook is what to do at night, where Options.Runbook does not say otherwise.
const runbook = "https://github.com/rowlock/rowlock/blob/main/docs/runbook.md"

const (
	// longWait is how long others may wait for a key until a human is to look.
	longWait = time.Minute

	// maxNeeds is how many keys that need a human are shown.
	maxNeeds = 20
)

// need is why a human is to look at a key. The most urgent is the first.
type need uint8

const (
	notRenewed need = iota + 1
	isPinned
	waitedFor
	noNeed
)

// needOf finds out whether a human is to look at a key.
func (r *row) needOf() need {
	switch {
	case r.life == silent:
		return notRenewed
	case r.Pinned && !r.Held:
		return isPinned
	case !r.waitedSince().IsZero() && r.at.Sub(r.waitedSince()) >= longWait:
		return waitedFor
	}
	return noNeed
}

// waitedSince is since when somebody waits for the key, as far as is known; zero: nobody does.
func (r *row) waitedSince() time.Time {
	if !r.WaitingSince.IsZero() {
		return r.WaitingSince
	}
	return r.waited
}

// needSince is since when a human is to look.
func (r *row) needSince() time.Time {
	if r.need == notRenewed {
		return later(r.first, r.renewed)
	}
	return r.waitedSince()
}

// findNeeds lists the keys that a human is to look at: the most urgent first, and of those that are as urgent the one
// that has been so for longest.
func (s *snapshot) findNeeds() {
	for i := range s.rows {
		if s.rows[i].need != noNeed {
			s.needs = append(s.needs, &s.rows[i])
		}
	}
	slices.SortStableFunc(s.needs, func(a, b *row) int {
		return cmp.Or(cmp.Compare(a.need, b.need), a.needSince().Compare(b.needSince()))
	})
}

// needs are the keys of the view that a human is to look at, and how many there are beyond them.
func (v view) needs(s *snapshot) (rows []*row, more int) {
	if !s.live() {
		return nil, 0
	}
	for _, r := range s.needs {
		switch {
		case !strings.HasPrefix(r.Key, v.prefix):
		case len(rows) == maxNeeds:
			more++
		default:
			rows = append(rows, r)
		}
	}
	return rows, more
}

// advice is what to do about a key.
type advice struct {
	Urgent bool   // a human is to look
	Why    string // of the urgent ones, in two words
	Text   string
	Wait   bool   // the key will be free by itself
	Part   string // of the runbook; empty: none
	Link   string // to it
}

// advice says what to do about a key that looks like that.
func (a *appearance) advice() advice {
	switch {
	case a.need == notRenewed:
		return advice{Urgent: true, Why: "not renewed", Part: "the-holder-is-dead", Wait: true,
			Text: "Its holder has died, hangs, or asked for NoRenew."}
	case a.need == isPinned:
		return advice{Urgent: true, Why: "pinned", Part: "a-transaction-in-the-way",
			Text: "Nobody has it, but an open transaction of its last holder must end first. Find that transaction, and end it."}
	case a.need == waitedFor && a.state == "free":
		return advice{Urgent: true, Why: "waited for", Part: "waits-grow",
			Text: "It is free, but programs wait. A transaction may be in the way, or they do not reach the database."}
	case a.need == waitedFor:
		return advice{Urgent: true, Why: "waited for", Part: "waits-grow",
			Text: "Look whether its holder still works or hangs. The standbys of a leader wait on purpose."}
	case a.state == "kept":
		return advice{Text: "Nothing: it was released, and MinHold keeps it from everybody until its time is over."}
	case a.state == "free":
		return advice{Text: "Nothing: anybody can have it."}
	case a.life == lives:
		return advice{Text: "Nothing: its holder lives."}
	}
	return advice{Text: "Wait: the page has not watched this holder for long enough to know whether it lives.", Part: "does-the-holder-live"}
}
