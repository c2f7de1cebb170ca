package main

import (
	"fmt"
	"io"
	"time"

	"github.com/rowlock/rowlock/examples/internal/fleet"
)

// report notes what happens, and prints it.
type report struct {
	w     io.Writer
	begin time.Time
	total int64

	last    int64         // noted as sent, as far as was reported
	worker  int           // the relay that has the lock
	lately  time.Time     // when it sent last
	pace    time.Duration // between its last two batches
	stirred map[int]bool  // relays that stood still and have not noticed yet

	Kills, Freezes, Takeovers, Stale, Refused int
	problems                                  []string
}

func newReport(w io.Writer, total int64) *report {
	return &report{w: w, begin: time.Now(), total: total, stirred: map[int]bool{}}
}

func (r *report) say(format string, args ...any) {
	fmt.Fprintf(r.w, "%6.1f s  %s\n", time.Since(r.begin).Seconds(), fmt.Sprintf(format, args...))
}

func (r *report) problem(format string, args ...any) {
	r.problems = append(r.problems, fmt.Sprintf(format, args...))
	r.say("ALERT: "+format, args...)
}

// note takes what happens.
func (r *report) note(e fleet.Event[event]) {
	switch e.Kind {
	case fleet.Said:
		r.heard(e.Member, e.Message)
	case fleet.Killed:
		r.Kills++
		delete(r.stirred, e.Member)
		r.say("relay %d is killed (kill -9), another is started", e.Member)
	case fleet.Frozen:
		r.Freezes++
		r.stirred[e.Member] = true
		r.say("relay %d stands still for %v", e.Member, e.For)
	case fleet.Thawed:
		r.say("relay %d goes on", e.Member)
	case fleet.Failed:
		delete(r.stirred, e.Member)
		r.problem("relay %d: %v", e.Member, e.Err)
	}
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
		r.say("relay %d has the lock: %d messages are noted as sent, it goes on from there", relay, e.Last)
	case sent:
		r.last = max(r.last, e.Last)
		now := time.Now()
		if !r.lately.IsZero() {
			r.pace = now.Sub(r.lately)
		}
		r.lately = now
		if r.last == r.total {
			r.say("relay %d has sent all %d messages", relay, r.total)
		}
	case stale:
		r.Stale++
		r.say("relay %d sends with an old token: the receiver refuses it", relay)
	case refused:
		r.Refused++
		r.say("relay %d wants to note what it sent: the guard refuses it", relay)
	case lost:
		r.say("relay %d finds that it lost the lock", relay)
	case alert:
		if r.stirred[relay] { // in the middle of a call: the server may have given up, and it begins anew
			r.say("relay %d got an error when it went on: %s", relay, e.Problem)
			break
		}
		r.problem("relay %d: %s", relay, e.Problem)
	}
	if e.Kind != began && e.Kind != idle && e.Kind != sent {
		delete(r.stirred, relay)
	}
}

// over tells whether nobody has anything more to do: also not those that stood
// still, who have not noticed yet.
func (r *report) over() bool { return r.last == r.total && len(r.stirred) == 0 }
