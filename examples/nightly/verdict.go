package main

import (
	"errors"
	"fmt"
	"io"
	"time"

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
	var errs []error
	wrongBooks := false
	for _, n := range nights {
		if wrong := n.books.wrong(); wrong != "" {
			wrongBooks = true
			errs = append(errs, fmt.Errorf("%v: %s", n.Strategy, wrong))
		}
		if n.books.Example != "" {
			fmt.Fprintln(w, n.books.Example)
		}
		for _, p := range n.problems {
			errs = append(errs, fmt.Errorf("%v: %s", n.Strategy, p))
		}
	}
	switch {
	case wrongBooks:
		fmt.Fprintln(w, "The books are wrong.")
	case len(errs) > 0:
		fmt.Fprintln(w, "The books are right, but somebody must look at the alerts.")
	case d.Without:
		fmt.Fprintln(w, "The books are right. That was luck: nothing prevents that a pod which stood still posts a chunk again. Try once more.")
	default:
		fmt.Fprintln(w, "Every account has its interest exactly once.")
	}
	return errors.Join(errs...)
}
