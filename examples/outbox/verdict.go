package main

import (
	"fmt"
	"io"

	"github.com/rowlock/rowlock/examples/internal/fleet"
	"github.com/rowlock/rowlock/examples/internal/table"
)

// verdict prints what came of it. The error says what is wrong.
func (r *report) verdict(w io.Writer, b books, other *receiver) error {
	t := table.Table{Left: 1}
	t.Add("in the database", "")
	t.Add("orders", b.Orders)
	t.Add("messages", b.Messages)
	t.Add("noted as sent, up to", b.Sent)
	t.Add("gaps, steps back, or an older token after a newer one", b.Breaks)
	fmt.Fprintln(w)
	t.Print(w)
	t = table.Table{Left: 1}
	t.Add("at the receiver", "")
	t.Add("arrived", other.arrived)
	t.Add("taken, in order", other.taken)
	t.Add("gaps", other.gaps)
	t.Add("came again: dropped by their number", other.again)
	t.Add("from a relay that had lost the lock: refused by the token", other.stale)
	fmt.Fprintln(w)
	t.Print(w)
	t = table.Table{Left: 1}
	t.Add("the relays", "")
	t.Add("killed", r.Kills)
	t.Add("frozen beyond their TTL", r.Freezes)
	t.Add("takeovers", r.Takeovers)
	t.Add("stopped by the guard when they noted what they had sent", r.Refused)
	fmt.Fprintln(w)
	t.Print(w)
	fmt.Fprintln(w)
	return fleet.Verdict(w, wrong(b, other), r.Alerts,
		fmt.Sprintf("Every order was told once and in order: %s ordered, %s told.", money(b.Cents), money(other.cents)))
}

// wrong lists what is not as it must be.
func wrong(b books, other *receiver) (list []error) {
	check := func(right bool, format string, args ...any) {
		if !right {
			list = append(list, fmt.Errorf(format, args...))
		}
	}
	check(b.Messages == b.Orders, "%d orders have %d messages", b.Orders, b.Messages)
	check(b.Sent == int64(b.Messages), "%d of %d messages are noted as sent", b.Sent, b.Messages)
	check(b.Breaks == 0, "what was noted as sent broke off, or went back, %d times", b.Breaks)
	check(other.gaps == 0, "the receiver saw %d gaps", other.gaps)
	check(other.taken == b.Messages, "the receiver took %d of %d messages", other.taken, b.Messages)
	check(other.cents == b.Cents, "the receiver was told of %s, %s were ordered", money(other.cents), money(b.Cents))
	return list
}

// money is an amount for people.
func money(cents int64) string { return fmt.Sprintf("%d.%02d", cents/100, cents%100) }
