package main

import (
	"io"
	"time"

	"github.com/rowlock/rowlock/examples/internal/fleet"
)

// report notes what happens, and prints it.
type report struct {
	*fleet.Log
	total int64

	last   int64         // noted as sent, as far as was reported
	worker int           // the relay that has the lock
	lately time.Time     // when it sent last
	pace   time.Duration // between its last two batches

	Takeovers, Stale, Refused int
}

func newReport(w io.Writer, total int64) *report {
	return &report{Log: fleet.NewLog(w, roleRelay), total: total}
}

// heard takes what a relay reports.
func (r *report) heard(relay int, e event) {
	switch e.Kind {
	case began:
		if r.worker != 0 {
			r.Takeovers++
		}
		r.worker, r.lately = relay, time.Time{}
	case idle:
		r.last = max(r.last, e.Last)
		r.Say("relay %d has the lock: %d messages are noted as sent, it goes on from there", relay, e.Last)
	case sent:
		r.last = max(r.last, e.Last)
		now := time.Now()
		if !r.lately.IsZero() {
			r.pace = now.Sub(r.lately)
		}
		r.lately = now
		if r.last == r.total {
			r.Say("relay %d has sent all %d messages", relay, r.total)
		}
	case stale:
		r.Stale++
		r.Say("relay %d sends with an old token: the receiver refuses it", relay)
	case refused:
		r.Refused++
		r.Say("relay %d wants to note what it sent: the guard refuses it", relay)
	case lost:
		r.Say("relay %d finds that it lost the lock", relay)
	case alert:
		if r.Stirred(relay) { // in the middle of a call: the server may have given up, and it begins anew
			r.Say("relay %d got an error when it went on: %s", relay, e.Problem)
			break
		}
		r.Alert("relay %d: %s", relay, e.Problem)
	}
	if e.Kind != began && e.Kind != idle && e.Kind != sent {
		r.Settled(relay)
	}
}

// over reports whether nobody has anything more to do: also not those that stood
// still, who have not noticed yet.
func (r *report) over() bool { return r.last == r.total && r.Calm() }
