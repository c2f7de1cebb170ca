package main

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/rowlock/rowlock/examples/internal/table"
)

// book has the terms, in the order in which they were reported.
type book struct{ terms []*term }

type term struct {
	who      string
	token    int64
	from, to time.Time // to: the last moment at which it trusted its lease; zero: it still leads
	killed   bool
	late     string // why its late write was refused
	ended    bool
}

func (b *book) note(m message) {
	if !m.Ended {
		b.terms = append(b.terms, &term{who: m.who, token: m.Term, from: m.At})
		return
	}
	for _, t := range b.terms {
		if t.token == m.Term {
			t.to, t.late, t.ended = m.Trusted, m.Late, true
		}
	}
}

func (b *book) killed(who string, at time.Time) {
	if t := b.last(who); t != nil {
		t.to, t.killed = at, true
	}
}

// last is the newest term of a process; nil: it has not led.
func (b *book) last(who string) *term {
	for i := len(b.terms) - 1; i >= 0; i-- {
		if b.terms[i].who == who {
			return b.terms[i]
		}
	}
	return nil
}

func (b *book) leads(who string) bool { t := b.last(who); return t != nil && t.to.IsZero() }

func (b *book) ended(who string) bool { t := b.last(who); return t != nil && t.ended }

func (b *book) isKilled(who string) bool { t := b.last(who); return t != nil && t.killed }

func (b *book) print(w io.Writer, began time.Time) {
	at := func(t time.Time) string { return fmt.Sprintf("%.2fs", t.Sub(began).Seconds()) }
	out := table.Table{Left: 2}
	out.Add("term", "leader", "from", "to", "its end")
	for _, t := range b.terms {
		to, end := "", "leads"
		if !t.to.IsZero() {
			to = at(t.to)
		}
		switch {
		case t.killed:
			end = "killed"
		case t.ended:
			end = "lost"
		}
		out.Add(t.token, t.who, at(t.from), to, end)
	}
	out.Print(w)
}

// verdict is nil if terms rise, no two leaders trusted their leases at a time, and the late
// write was refused.
func (b *book) verdict(w io.Writer) error {
	var wrong []error
	for i, t := range b.terms {
		if t.ended && t.late == "" {
			wrong = append(wrong, fmt.Errorf("%s wrote under a guard after the end of its term", t.who))
		}
		if i == 0 {
			continue
		}
		before := b.terms[i-1]
		if t.token <= before.token {
			wrong = append(wrong, fmt.Errorf("term %d comes after %d", t.token, before.token))
		}
		if before.to.IsZero() || before.to.After(t.from) {
			wrong = append(wrong, fmt.Errorf("%s still trusted its lease when %s led", before.who, t.who))
		}
	}
	if len(b.terms) < 3 {
		wrong = append(wrong, fmt.Errorf("%d terms, want at least 3", len(b.terms)))
	}
	if len(wrong) > 0 {
		return errors.Join(wrong...)
	}
	fmt.Fprintln(w, "\nOne led at a time, terms rise, and the write of the leader that was frozen was refused.")
	return nil
}
