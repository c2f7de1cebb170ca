package ui

import (
	"encoding/hex"
	"sync"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/words"
)

// appearance is what viewers see of a key. The times in it count by themselves in the browser, so it is
// the same one, and sent once, as long as nothing but the time changes.
type appearance struct {
	facts
	end     time.Time // of the hold
	renewed time.Time

	once    sync.Once
	message []byte // of the stream: see rowMessage
}

// facts are the parts of it that are compared.
type facts struct {
	key, owner string
	state      string // free, held, kept, pinned
	life       life
	token      int64
	hold       driver.HoldID
	since      int64 // in ms; 0: not known
	first      int64 // since when the hold is watched, or was last renewed, where it is silent
	readers    int
	slots      int
	waiting    int
	counted    bool  // waiting is how many wait; else at least so many do
	waitingFor int64 // since when the first waits, or, not counted, was seen to, in ms
	most       time.Duration
	need       need
}

func appearanceOf(r *row) *appearance {
	a := &appearance{facts: facts{
		key: r.Key, owner: r.Owner, state: "free", life: r.life, token: r.Token, hold: r.Hold,
		readers: r.Readers, slots: r.Slots,
		waiting: r.Waiting, counted: !r.WaitingSince.IsZero(), waitingFor: millis(r.waitedSince()), since: millis(r.Since),
		need: r.need,
	}}
	switch {
	case r.Kept:
		a.state = "kept"
	case r.Held:
		a.state = "held"
	case r.Pinned:
		a.state = "pinned"
	}
	if r.Held {
		a.end, a.most = r.end(), r.most.Round(time.Second)
	}
	switch r.life {
	case lives:
		a.renewed = r.renewed
	case silent:
		a.first = millis(later(r.first, r.renewed))
	}
	return a
}

// like reports whether b shows the same: the end of a hold that was not renewed moves a little with
// the time that polls take.
func (a *appearance) like(b *appearance) bool {
	return a.facts == b.facts && a.renewed.Equal(b.renewed) && a.end.Sub(b.end).Abs() < 500*time.Millisecond
}

func millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// item is a key for the templates.
type item struct {
	ID     string // the key in hex: its order is that of the keys
	Key    string
	State  string // a word, which is also the class of its badge
	Detail string // what else there is to say of the state
	Since  *counted
	Left   *counted
	Most   int64 // of the meter, in seconds
	Low    int64
	Now    int64
	Owner  string
	Token  int64
	Hold   string
	Life   *counted // with text before and after
	Do     advice
	Last   bool     // nobody has it: the owner is that of the last hold
	Waits  string   // who waits
	Waited *counted // since when
}

// counted is a time that the browser counts on.
type counted struct {
	Before, Text, After string
	ISO                 string // for datetime
	Clock               string // the time for people
	From, Until         int64  // in ms since 1970; one of them
}

// from counts the time since t.
func from(now time.Time, ms int64) *counted {
	t := time.UnixMilli(ms).UTC()
	return &counted{Text: span(now.Sub(t)), From: ms, ISO: t.Format(time.RFC3339), Clock: clock(now, t)}
}

// clock is a time for people: with the date if it is another day's.
func clock(now, t time.Time) string {
	t = t.UTC()
	if now.UTC().Format(time.DateOnly) == t.Format(time.DateOnly) {
		return t.Format("15:04:05 UTC")
	}
	return t.Format("2006-01-02 15:04:05 UTC")
}

// item puts an appearance into words, as of now.
func (a *appearance) item(now time.Time) item {
	i := item{
		ID: keyID(a.key), Key: printable(a.key), State: a.state, Owner: printable(a.owner), Token: a.token, Waits: "–", Do: a.advice(),
	}
	switch a.state {
	case "free":
		i.Owner = "–"
	case "kept":
		i.Detail, i.Last = "released; MinHold keeps it from everybody", true
	case "pinned":
		i.Detail, i.Last = "nobody has it, but an open transaction of the last holder must end first", true
	case "held":
		i.Detail = a.together()
		if n := a.readers + a.slots; n > 1 { // the owner is that of one of them
			i.Owner += " and " + words.Count(n-1, "other", "others")
		}
	}
	if a.state == "held" || a.state == "kept" {
		i.Left = &counted{Text: span(a.end.Sub(now)), Until: a.end.UnixMilli()}
		i.Most = max(int64(a.most/time.Second), 1)
		i.Low = (i.Most + 2) / 3
		i.Now = min(max(int64(a.end.Sub(now)/time.Second), 0), i.Most)
		if a.since != 0 {
			i.Since = from(now, a.since)
		}
		if a.hold != (driver.HoldID{}) {
			i.Hold = a.hold.String()
		}
	}
	switch a.life {
	case lives:
		i.Life = from(now, a.renewed.UnixMilli())
		i.Life.Before, i.Life.After = "renewed ", " ago"
	case silent:
		i.Life = from(now, a.first)
		i.Life.Before = "not renewed for "
	}
	switch {
	case a.waiting == 0:
	case !a.counted:
		i.Waits = "at least 1 program"
		if now.Sub(time.UnixMilli(a.waitingFor)) >= longWait {
			i.Waited = from(now, a.waitingFor)
			i.Waited.Before = "seen for "
		}
	default:
		i.Waits = words.Count(a.waiting, "program", "programs")
		i.Waited = from(now, a.waitingFor)
		i.Waited.Before = "for "
		if a.waiting > 1 {
			i.Waited.Before = "the first for "
		}
	}
	return i
}

// together says who has a key that several have.
func (a *appearance) together() string {
	switch {
	case a.readers > 0 && a.slots > 0:
		return "by " + words.Count(a.readers, "reader", "readers") + " and in " + words.Count(a.slots, "slot", "slots")
	case a.readers > 0:
		return "by " + words.Count(a.readers, "reader", "readers")
	case a.slots > 0:
		return "in " + words.Count(a.slots, "slot", "slots")
	}
	return ""
}

// keyID is a key in links and in the page.
func keyID(key string) string { return hex.EncodeToString([]byte(key)) }
