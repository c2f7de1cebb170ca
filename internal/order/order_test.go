package order

import (
	"slices"
	"testing"
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
		if back := Unsort(s, s.Items); !slices.Equal(back, batch) {
			t.Errorf("by %s: the answers are in the order %q, want %q", c.name, back, batch)
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
