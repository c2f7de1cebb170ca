// Package storekit has what the stores of rowlock's databases do alike: the order
// of keys in a batch, the bounds of reaping, and what the state of a
// row means to a lease that was guarded.
package storekit

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/driver"
)

const (
	// MinGrace is the smallest grace of Reap and ReapRuns. An acquire that waited
	// writes a token from before its wait; were the row of a later one gone by then,
	// tokens would go backwards. No statement waits for an hour.
	MinGrace = time.Hour

	// MaxRun is the longest run ID, in bytes.
	MaxRun = 255
)

// CheckRun is an error that matches driver.ErrInvalid for a run ID that cannot be used.
func CheckRun(run string) error {
	if len(run) < 1 || len(run) > MaxRun {
		return fmt.Errorf("%w: a run ID of %d bytes: use 1 to %d", driver.ErrInvalid, len(run), MaxRun)
	}
	return nil
}

// ByBytes orders keys by their bytes.
func ByBytes(a, b string) int { return strings.Compare(a, b) }

// ByLength orders keys by their length, and those of one length by their bytes.
func ByLength(a, b string) int {
	return cmp.Or(cmp.Compare(len(a), len(b)), strings.Compare(a, b))
}

// Sorted is a batch in the order in which every statement locks the rows of its keys:
// with one order for all, no two statements wait for each other.
type Sorted[T any] struct {
	Items []T
	from  []int // where each item stood in the caller's batch
}

// Sort sorts a batch by the keys of its items. The caller's slice stays as it is.
func Sort[T any](items []T, key func(T) string, compare func(a, b string) int) Sorted[T] {
	s := Sorted[T]{Items: make([]T, len(items)), from: make([]int, len(items))}
	for i := range s.from {
		s.from[i] = i
	}
	slices.SortFunc(s.from, func(a, b int) int { return compare(key(items[a]), key(items[b])) })
	for i, from := range s.from {
		s.Items[i] = items[from]
	}
	return s
}

// Unsort puts the results of the sorted items into the order of the caller's batch.
func (s Sorted[T]) Unsort(results []driver.Result) []driver.Result { return Unsort(s, results) }

// Unsort is Sorted.Unsort for answers of any kind.
func Unsort[T, A any](s Sorted[T], results []A) []A {
	answers := make([]A, len(results))
	for i, from := range s.from {
		answers[from] = results[i]
	}
	return answers
}

// Successor is the first string after all those that begin with prefix; there is none
// for the empty one and for one of 0xff only.
func Successor(prefix string) (next string, ok bool) {
	b := []byte(prefix)
	for i := len(b) - 1; i >= 0; i-- {
		if b[i] < 0xff {
			b[i]++
			return string(b[:i+1]), true
		}
	}
	return "", false
}

// Lost is the error of a guard whose lease has a row with that status; nil while the
// row has the hold (driver.Alive). A hold that was released, but not by its holder, was
// released by force.
func Lost(h driver.Hold, status driver.Status) error {
	lost := &rowlock.LostError{Key: h.Key, Token: h.Token, Reason: rowlock.ReasonRemoved}
	switch status {
	case driver.Alive:
		return nil
	case driver.Taken:
		lost.Reason = rowlock.ReasonTaken
	case driver.Forced, driver.Released:
		lost.Reason = rowlock.ReasonForced
	}
	return lost
}

// BatchPatience is for how long a Store waits at most before it answers renewals, where those which have been answered wait for the
// others: a quarter of the TTL, so that there is time for another try.
func BatchPatience(holds []driver.Hold) time.Duration {
	patience := 50 * time.Millisecond
	for i := range holds {
		patience = max(patience, holds[i].TTL/4)
	}
	return patience
}
