// Package order has the orders in which stores lock the rows of a batch, and the end of a prefix.
package order

import (
	"cmp"
	"slices"
	"strings"
)

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

// Unsort puts the answers to the sorted items into the order of the caller's batch.
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
