package main

import (
	"fmt"
	"io"

	"github.com/rowlock/rowlock/examples/internal/fleet"
	"github.com/rowlock/rowlock/examples/internal/table"
)

// report notes what happens, and prints it.
type report struct {
	*fleet.Log
	orders int
	shown  int  // orders that the last line of progress showed
	empty  bool // a worker has said so

	fulfilled, already, turns, lost int
}

func newReport(out io.Writer, orders int) *report {
	return &report{Log: fleet.NewLog(out, roleWorker), orders: orders}
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
			r.Say("%d orders are fulfilled", r.fulfilled)
		}
	case lost:
		r.lost++
		r.Say("worker %d finds that it lost the lock of product %d", worker, e.Product)
	case round:
		r.Settled(worker)
	case empty:
		if !r.empty {
			r.empty = true
			r.Say("worker %d finds the inbox empty", worker)
		}
	case alert:
		if r.Stirred(worker) { // in the middle of a call: the server may have given up, and the next round tries again
			r.Say("worker %d got an error when it went on, product %d: %s", worker, e.Product, e.Problem)
			return
		}
		r.Alert("worker %d, product %d: %s", worker, e.Product, e.Problem)
	}
}

// over reports whether nobody has anything more to do: also not those that stood
// still.
func (r *report) over() bool { return r.empty && r.Calm() }

// verdict prints what came of it. The error says what is wrong.
func (r *report) verdict(out io.Writer, b books) error {
	t := table.Table{}
	t.Add("orders", "fulfilled once", "twice", "never", "units ordered", "shipped", "came in", "left", "kills", "freezes", "locks lost", "turns", "ErrAlreadyRan")
	t.Add(b.Orders, b.Once, b.More, b.Never, b.Ordered, b.Shipped, b.CameIn, b.Left, r.Kills, r.Freezes, r.lost, r.turns, r.already)
	fmt.Fprintln(out)
	t.Print(out)
	fmt.Fprintln(out)
	return fleet.Verdict(out, b.wrong(), r.Alerts, "Every order is fulfilled exactly once, and the stock is what the ledger says.")
}
