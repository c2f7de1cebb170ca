package main

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// book notes who ran the job when.
type book struct {
	s        *schedule
	w        io.Writer
	runs     []run
	killed   int // the pod that was killed; 0: none yet
	problems []string
}

type run struct {
	pod          int
	token        int64
	since        time.Time // by the database's clock
	began, ended time.Time // by the pods'; ended is zero while it runs, and if its pod was killed
}

func newBook(s *schedule, w io.Writer) *book {
	fmt.Fprintf(w, "%4s  %-8s  %-16s  %s\n", "run", "by", "after the last", "token")
	return &book{s: s, w: w}
}

func (b *book) problem(format string, args ...any) {
	b.problems = append(b.problems, fmt.Sprintf(format, args...))
}

// note takes what a pod says.
func (b *book) note(pod int, e event) {
	if !e.Began {
		for i := range b.runs {
			if b.runs[i].token == e.Token {
				b.runs[i].ended = e.At
			}
		}
		return
	}
	r := run{pod: pod, token: e.Token, since: e.Since, began: e.At}
	after := "-"
	if n := len(b.runs); n > 0 {
		after = r.since.Sub(b.runs[n-1].since).Round(time.Millisecond).String()
	}
	b.runs = append(b.runs, r)
	fmt.Fprintf(b.w, "%4d  pod %-4d  %-16s  %d\n", len(b.runs), pod, after, e.Token)
}

// over reports whether all runs have ended.
func (b *book) over() bool {
	n := len(b.runs)
	return n >= b.s.Runs && !b.runs[n-1].ended.IsZero()
}

// toKill is the pod to be killed now: the one that is at the run in the middle. 0: none.
func (b *book) toKill() int {
	middle := b.s.Runs / 2
	if b.killed != 0 || b.s.Pods < 2 || len(b.runs) != middle || !b.runs[middle-1].ended.IsZero() {
		return 0
	}
	return b.runs[middle-1].pod
}

func (b *book) kill(pod int) {
	b.killed = pod
	fmt.Fprintf(b.w, "      pod %d is killed (kill -9)\n", pod)
}

// verdict is nil if every period had one run.
func (b *book) verdict() error {
	for i, r := range b.runs[1:] {
		last, n := b.runs[i], i+2
		if d := r.since.Sub(last.since); d < b.s.Period {
			b.problem("run %d began %v after the one before, in a period of %v", n, d, b.s.Period)
		}
		if last.ended.IsZero() && last.pod != b.killed || last.ended.After(r.began) {
			b.problem("run %d began while pod %d was at the one before", n, last.pod)
		}
		if r.token <= last.token {
			b.problem("run %d has token %d, after %d", n, r.token, last.token)
		}
	}
	if len(b.problems) > 0 {
		return fmt.Errorf("%d problem(s):\n  %s", len(b.problems), strings.Join(b.problems, "\n  "))
	}
	fmt.Fprintf(b.w, "\nOne run a period, by the database's clock.\n")
	return nil
}
