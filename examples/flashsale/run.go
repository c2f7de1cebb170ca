package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/rowlock/rowlock/examples/internal/servers"
)

// thinkTime is what a buyer does between looking at the stock and ordering. It is
// part of every sale, with and without a lock.
const thinkTime = time.Millisecond

// run does everything and prints it. The error says that something was not as it
// should be.
func (d *demo) run(ctx context.Context, w io.Writer) error {
	begin := time.Now()
	r := &report{Machine: machine(), Buyers: d.Buyers, Items: d.Items, Processes: d.Processes}
	for _, s := range d.servers() {
		about, err := s.About(ctx)
		if err != nil {
			return err
		}
		r.Servers = append(r.Servers, about)
	}
	r.printHead(w)
	var places []place
	for _, s := range d.servers() {
		space := servers.NewSpace("flashsale")
		defer s.Drop("flashsale", space)
		places = append(places, d.runSales(ctx, w, r, s, space)...)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	r.printSales(w)
	for _, p := range places {
		t, err := d.kill(ctx, p)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			r.fail(p, "takeover: "+err.Error())
			continue
		}
		r.Takeovers = append(r.Takeovers, t)
	}
	r.printTakeovers(w)
	if err := d.runFreezes(ctx, r, places); err != nil {
		return err
	}
	r.printFreezes(w)
	r.Seconds = time.Since(begin).Seconds()
	r.printEnd(w)
	if d.JSON != "" {
		if err := r.writeJSON(d.JSON); err != nil {
			return err
		}
	}
	if n := len(r.Failures); n > 0 {
		return fmt.Errorf("%d thing(s) went wrong, see above", n)
	}
	return nil
}

// runFreezes freezes a holder at each place, and fails where a guarded write got through.
func (d *demo) runFreezes(ctx context.Context, r *report, places []place) error {
	freezes, err := d.freezeAll(ctx, places)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		r.Failures = append(r.Failures, err.Error())
		return nil
	}
	r.Freezes = freezes
	for i, f := range freezes {
		if !f.Guarded.Refused || f.Guarded.Overwrote {
			r.fail(places[i], fmt.Sprintf("the guarded write of a frozen holder should be refused: %+v", f.Guarded))
		}
	}
	return nil
}

// runSales runs the sales of one server and returns the places that have a lock.
func (d *demo) runSales(ctx context.Context, w io.Writer, r *report, server servers.Server, space string) (locked []place) {
	think := thinkTime
	for _, strategy := range d.Strategies {
		p := place{Server: server, Strategy: strategy, Space: space}
		if strategy == unlocked {
			think = d.sellUnlocked(ctx, w, r, p)
			continue
		}
		if onSQL(strategy) == (server == servers.MongoDB) {
			continue // a strategy of another server
		}
		s, b, err := d.hold(ctx, p, think)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			r.fail(p, err.Error())
			continue
		}
		r.add(p, s)
		if wrong := b.wrong(d.Items); wrong != "" {
			r.fail(p, wrong)
		}
		locked = append(locked, p)
	}
	return locked
}

// sellUnlocked runs the sale without a lock, which should oversell. If by chance it
// does not, it is repeated with buyers who think for longer, at most three times.
// The think time of the last try, which all further sales have too, is returned.
func (d *demo) sellUnlocked(ctx context.Context, w io.Writer, r *report, p place) time.Duration {
	think := thinkTime
	for again := 3; ; again-- {
		s, _, err := d.hold(ctx, p, think)
		if ctx.Err() != nil {
			return think
		}
		if err != nil {
			r.fail(p, err.Error())
			return think
		}
		r.add(p, s)
		if s.Oversold > 0 {
			return think
		}
		if again == 0 {
			fmt.Fprintf(w, "%s did not oversell. It was lucky: nothing prevents it.\n", p)
			return think
		}
		fmt.Fprintf(w, "%s did not oversell at a think time of %v. Again, with %v:\n", p, think, 2*think)
		think *= 2
	}
}

// add notes a sale.
func (r *report) add(p place, s sale) {
	r.Sales = append(r.Sales, s)
	if s.Errors > 0 {
		r.fail(p, fmt.Sprintf("%d buyers got an error; the first: %s", s.Errors, s.firstError))
	}
}

// fail notes that something is not as it should be.
func (r *report) fail(p place, what string) { r.Failures = append(r.Failures, p.String()+": "+what) }
