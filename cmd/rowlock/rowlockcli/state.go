package rowlockcli

import (
	"fmt"
	"strings"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/words"
)

// stateOf is that of a key, in a word.
func stateOf(i driver.Info) string {
	switch {
	case i.Kept:
		return "kept"
	case i.Held:
		return "held"
	case i.Pinned:
		return "pinned"
	}
	return "free"
}

// age is for how long a key is held, by the database's clock as far as this machine's is right.
func age(i driver.Info) time.Duration {
	if i.Since.IsZero() {
		return 0
	}
	return max(time.Since(i.Since), 0)
}

// describe says in what state a key is, as the end of a sentence: "report" is …
func describe(i driver.Info) string {
	switch stateOf(i) {
	case "kept":
		return fmt.Sprintf("free, but kept from everybody for %s more (--min-hold of %s)", short(i.Left), printable(i.Owner))
	case "held":
		if i.InPhase() {
			return describePhase(i)
		}
		return fmt.Sprintf("held by %s since %s (for %s); its lease ends in %s unless it is renewed", printable(i.Owner), clockTime(i.Since), short(age(i)), short(i.Left))
	case "pinned":
		return fmt.Sprintf("held by nobody, but an open transaction of its last holder, %s, must end first", printable(i.Owner))
	}
	return "free"
}

// describePhase is describe of a key that several can have.
func describePhase(i driver.Info) string {
	who, lease := holders(i)+", "+printable(i.Owner), "its lease ends"
	if i.Readers+i.Slots > 1 {
		who, lease = holders(i)+", one of them "+printable(i.Owner), "the last of their leases ends"
	}
	return fmt.Sprintf("held by %s; %s in %s unless it is renewed", who, lease, short(i.Left))
}

// waitingText says who waits for a key for which somebody does: 2 programs wait, the first for 3s.
func waitingText(i driver.Info) string {
	switch {
	case i.WaitingSince.IsZero(): // strategy for-update does not count them
		return "at least one program waits"
	case i.Waiting == 1:
		return "1 program waits, for " + short(waitingFor(i))
	}
	return fmt.Sprintf("%d programs wait, the first for %s", i.Waiting, short(waitingFor(i)))
}

// waitingFor is for how long the first of those who wait has waited, as far as this machine's clock is right.
func waitingFor(i driver.Info) time.Duration { return max(time.Since(i.WaitingSince), 0) }

// holders says how many have a key that is held: 2 readers, 1 slot.
func holders(i driver.Info) string {
	var some []string
	if i.Readers > 0 {
		some = append(some, words.Count(i.Readers, "reader", "readers"))
	}
	if i.Slots > 0 {
		some = append(some, words.Count(i.Slots, "slot", "slots"))
	}
	return strings.Join(some, ", ")
}

// clockTime is a time of day, with the date if it is not today's.
func clockTime(t time.Time) string {
	t = t.Local()
	if y, m, d := t.Date(); time.Since(t) < 24*time.Hour {
		if ny, nm, nd := time.Now().Date(); y == ny && m == nm && d == nd {
			return t.Format("15:04:05")
		}
	}
	return t.Format("2006-01-02 15:04:05")
}

// printable is a key or an owner as a terminal shows it.
func printable(s string) string { return words.Printable(s, "-") }
