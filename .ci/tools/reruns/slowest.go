package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"
)

// slowest says which five tests took longest, what all took together, and, where there is a bound, whether the run took longer.
func slowest(w io.Writer, took map[test]time.Duration, run, bound time.Duration) {
	tests := slices.SortedFunc(maps.Keys(took), func(a, b test) int {
		return cmp.Or(cmp.Compare(took[b], took[a]), cmp.Compare(a.String(), b.String()))
	})
	sum := time.Duration(0)
	for _, d := range took {
		sum += d
	}
	fmt.Fprintf(w, "reruns: %d tests took %.0f s together; the slowest:\n", len(tests), sum.Seconds())
	for _, t := range tests[:min(5, len(tests))] {
		fmt.Fprintf(w, "reruns: %6.1f s %s\n", took[t].Seconds(), t)
	}
	if bound > 0 && run > bound {
		fmt.Fprintf(w, "reruns: the run took %.0f s, its bound is %.0f s\n", run.Seconds(), bound.Seconds())
	}
}
