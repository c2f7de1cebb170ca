package main

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/rowlock/rowlock/examples/internal/fleet"
	"github.com/rowlock/rowlock/examples/internal/table"
)

// report notes what happens, and prints it.
type report struct {
	w       io.Writer
	begin   time.Time
	orders  int
	shown   int          // orders that the last line of progress showed
	empty   bool         // a worker has said so
	stirred map[int]bool // workers that stood still and have not come round since

	fulfilled, already, turns, lost, kills, freezes int
	problems                                        []string
}

func newReport(w io.Writer, orders int) *report {
	return &report{w: w, begin: time.Now(), orders: orders, stirred: map[int]bool{}}
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
		r.kills++
		delete(r.stirred, e.Member)
		r.say("worker %d is killed (kill -9), another is started", e.Member)
	case fleet.Frozen:
		r.freezes++
		r.stirred[e.Member] = true
		r.say("worker %d stands still for %v", e.Member, e.For)
	case fleet.Thawed:
		r.say("worker %d goes on", e.Member)
	case fleet.Failed:
		delete(r.stirred, e.Member)
		r.problem("worker %d: %v", e.Member, e.Err)
	}
}

// heard takes what a worker reports.
func (r *report) heard(worker int, e event) {
	switch e.Kind {
	case began:
		r.turns++
	case already:
		r.already++
	case fulfilled:
		r.fulfilled++
		if r.fulfilled-r.shown >= max(1, r.orders/10) {
			r.shown = r.fulfilled
			r.say("%d orders are fulfilled", r.fulfilled)
		}
	case lost:
		r.lost++
		r.say("worker %d finds that it lost the lock of product %d", worker, e.Product)
	case round:
		delete(r.stirred, worker)
	case empty:
		if !r.empty {
			r.empty = true
			r.say("worker %d finds the inbox empty", worker)
		}
	case alert:
		if r.stirred[worker] { // in the middle of a call: the server may have given up, and the next round tries again
			r.say("worker %d got an error when it went on, product %d: %s", worker, e.Product, e.Problem)
			return
		}
		r.problem("worker %d, product %d: %s", worker, e.Product, e.Problem)
	}
}

// over tells whether nobody has anything more to do: also not those that stood
// still.
func (r *report) over() bool { return r.empty && len(r.stirred) == 0 }

// verdict prints what came of it. The error says what is wrong.
func (r *report) verdict(b books) error {
	t := table.Table{}
	t.Add("orders", "fulfilled once", "twice", "never", "units ordered", "shipped", "came in", "left", "kills", "freezes", "locks lost", "turns", "ErrAlreadyRan")
	t.Add(b.Orders, b.Once, b.More, b.Never, b.Ordered, b.Shipped, b.CameIn, b.Left, r.kills, r.freezes, r.lost, r.turns, r.already)
	fmt.Fprintln(r.w)
	t.Print(r.w)
	fmt.Fprintln(r.w)
	errs := b.wrong()
	for _, p := range r.problems {
		errs = append(errs, errors.New(p))
	}
	switch {
	case len(errs) == 0:
		fmt.Fprintln(r.w, "Every order is fulfilled exactly once, and the stock is what the ledger says.")
	case len(b.wrong()) > 0:
		fmt.Fprintln(r.w, "The books are wrong.")
	default:
		fmt.Fprintln(r.w, "The books are right, but somebody must look at the alerts.")
	}
	return errors.Join(errs...)
}
