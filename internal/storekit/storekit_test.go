package storekit

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/driver"
)

func TestSort(t *testing.T) {
	t.Parallel()
	batch := []string{"b", "a\xff", "aa", "a"}
	for _, c := range []struct {
		name    string
		compare func(a, b string) int
		want    []string
	}{
		{"bytes", ByBytes, []string{"a", "aa", "a\xff", "b"}},
		{"length", ByLength, []string{"a", "b", "aa", "a\xff"}},
	} {
		s := Sort(batch, func(k string) string { return k }, c.compare)
		if !slices.Equal(s.Items, c.want) {
			t.Errorf("by %s: %q, want %q", c.name, s.Items, c.want)
		}
		results := make([]driver.Result, len(batch))
		for i, k := range s.Items {
			results[i].Owner = k
		}
		for i, r := range s.Unsort(results) {
			if r.Owner != batch[i] {
				t.Errorf("by %s: result %d is of %q, want %q", c.name, i, r.Owner, batch[i])
			}
		}
	}
}

func TestSuccessor(t *testing.T) {
	t.Parallel()
	for prefix, want := range map[string]string{"": "", "a": "b", "a\xff": "b", "\xff\xff": "", "a\x00": "a\x01"} {
		if next, ok := Successor(prefix); next != want || ok != (want != "") {
			t.Errorf("%q: %q, %v; want %q", prefix, next, ok, want)
		}
	}
}

func TestCheckRun(t *testing.T) {
	t.Parallel()
	for _, run := range []string{"", strings.Repeat("r", MaxRun+1)} {
		if err := CheckRun(run); !errors.Is(err, driver.ErrInvalid) {
			t.Errorf("a run ID of %d bytes: %v", len(run), err)
		}
	}
	if err := CheckRun(strings.Repeat("r", MaxRun)); err != nil {
		t.Error(err)
	}
}

func TestLost(t *testing.T) {
	t.Parallel()
	h := driver.Hold{Key: "k", Token: 7}
	if err := Lost(h, driver.Alive); err != nil {
		t.Error(err)
	}
	for status, want := range map[driver.Status]rowlock.Reason{
		driver.Taken: rowlock.ReasonTaken, driver.Forced: rowlock.ReasonForced,
		driver.Released: rowlock.ReasonForced, driver.Removed: rowlock.ReasonRemoved,
	} {
		var lost *rowlock.LostError
		if err := Lost(h, status); !errors.As(err, &lost) || lost.Reason != want || lost.Key != "k" || lost.Token != 7 {
			t.Errorf("status %v: %v, want reason %s", status, err, want)
		}
	}
}
