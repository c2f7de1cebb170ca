package main

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// book notes who ran which tick.
type book struct {
	s        *schedule
	begin    time.Time
	w        io.Writer
	ticks    []tick // ticks[0] is tick 1
	printed  int    // lines so far
	alive    map[int]bool
	killed   int // the pod that was killed; 0: none yet
	problems []string
}

type tick struct {
	runs     []run
	answered map[int]bool // pods that are through with it
	refused  int
}

type run struct {
	pod   int
	late  time.Duration // after the tick was due by the right clock
	token int64
}

func newBook(s *schedule, begin time.Time, w io.Writer) *book {
	b := &book{s: s, begin: begin, w: w, ticks: make([]tick, s.Ticks), alive: map[int]bool{}}
	for i := range b.ticks {
		b.ticks[i].answered = map[int]bool{}
	}
	for pod := 1; pod <= s.Pods; pod++ {
		b.alive[pod] = true
	}
	fmt.Fprintf(w, "%4s  %-12s %8s  %-20s %7s\n", "tick", "ran by", "late by", "token", "refused")
	return b
}

func (b *book) problem(format string, args ...any) {
	b.problems = append(b.problems, fmt.Sprintf(format, args...))
}

// note takes what a pod says of a tick.
func (b *book) note(pod int, e event) {
	t := &b.ticks[e.Tick-1]
	switch e.Kind {
	case ran:
		due := b.begin.Add(time.Duration(e.Tick-1) * b.s.Period)
		t.runs = append(t.runs, run{pod: pod, late: e.At.Sub(due), token: e.Token})
		return // it is not through with the tick
	case refuse:
		t.refused++
	case alert:
		b.problem("tick %d, pod %d: %s", e.Tick, pod, e.Problem)
		fmt.Fprintf(b.w, "      ALERT: pod %d: %s\n", pod, e.Problem)
	}
	t.answered[pod] = true
	b.print()
}

// gone notes that a pod has ended.
func (b *book) gone(pod int) {
	delete(b.alive, pod)
	b.print()
}

// open reports whether a tick is still to be settled.
func (b *book) open() bool { return b.printed < len(b.ticks) }

// toKill is the pod to be killed now: the one that ran the tick before the middle,
// when everybody is through with it. 0: none.
func (b *book) toKill() int {
	middle := len(b.ticks) / 2
	if b.killed != 0 || b.s.Pods < 2 || b.printed < middle || middle == 0 || len(b.ticks[middle-1].runs) == 0 {
		return 0
	}
	return b.ticks[middle-1].runs[0].pod
}

func (b *book) kill(pod int) {
	b.killed = pod
	fmt.Fprintf(b.w, "      pod %d is killed (kill -9)\n", pod)
}

// print writes the lines of the ticks that all living pods are through with.
func (b *book) print() {
	for b.open() {
		t := b.ticks[b.printed]
		for pod := range b.alive {
			if !t.answered[pod] {
				return
			}
		}
		b.printed++
		who, late, token := []string{}, "", ""
		for _, r := range t.runs {
			who = append(who, fmt.Sprint(r.pod))
		}
		if len(t.runs) > 0 {
			late, token = t.runs[0].late.Round(time.Millisecond).String(), fmt.Sprint(t.runs[0].token)
		}
		switch len(t.runs) {
		case 0:
			b.problem("tick %d never ran", b.printed)
			who = []string{"NOBODY"}
		case 1:
			who[0] = "pod " + who[0]
		default:
			b.problem("tick %d ran %d times: pods %s", b.printed, len(t.runs), strings.Join(who, ", "))
			who[0] = "PODS " + who[0]
		}
		fmt.Fprintf(b.w, "%4d  %-12s %8s  %-20s %7d\n", b.printed, strings.Join(who, ","), late, token, t.refused)
	}
}

// verdict is nil if every tick ran exactly once and nobody raised an alert.
func (b *book) verdict() error {
	if b.open() {
		b.problem("tick %d was not settled: no pod is left", b.printed+1)
	}
	if len(b.problems) > 0 {
		return fmt.Errorf("%d problem(s):\n  %s", len(b.problems), strings.Join(b.problems, "\n  "))
	}
	fmt.Fprintf(b.w, "\nEvery tick ran exactly once.\n")
	return nil
}
