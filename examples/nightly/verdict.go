package main

import (
	"fmt"
	"io"
	"time"

	"github.com/rowlock/rowlock/examples/internal/fleet"
	"github.com/rowlock/rowlock/examples/internal/table"
)

// verdict prints the books of all nights. The error says that some are wrong.
func (d *demo) verdict(w io.Writer, nights []*night) error {
	t := table.Table{Left: 1}
	t.Add("strategy", "accounts", "posted once", "twice", "never", "sum expected", "sum", "kills", "freezes", "takeovers", "ErrAlreadyRan", "took")
	for _, n := range nights {
		b := n.books
		already := fmt.Sprint(n.Already)
		if d.Without {
			already = "–"
		}
		t.Add(n.Strategy, b.Accounts, b.Once, b.More, b.Never, money(b.Expected), money(b.Sum), n.Kills, n.Freezes, n.Takeovers, already, n.took.Round(100*time.Millisecond))
	}
	fmt.Fprintln(w)
	t.Print(w)
	fmt.Fprintln(w)
	var wrong, alerts []error
	for _, n := range nights {
		if what := n.books.wrong(); what != "" {
			wrong = append(wrong, fmt.Errorf("%v: %s", n.Strategy, what))
		}
		if n.books.Example != "" {
			fmt.Fprintln(w, n.books.Example)
		}
		for _, a := range n.Alerts {
			alerts = append(alerts, fmt.Errorf("%v: %w", n.Strategy, a))
		}
	}
	success := "Every account has its interest exactly once."
	if d.Without {
		success = "The books are right. That was luck: nothing prevents that a pod which stood still posts a chunk again. Try once more."
	}
	return fleet.Verdict(w, wrong, alerts, success)
}
