package grant

import (
	"slices"
	"testing"
	"testing/synctest"

	"github.com/rowlock/rowlock/driver"
)

// TestP18_UnwantedForOneOfTwo: the caller that a grant was for has given up, and another has joined it since: for that one it goes on.
func TestP18_UnwantedForOneOfTwo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		g, first := f.add(func(t *Terms) { t.Mode = driver.Shared })
		second := &lease{}
		if !g.Join(g.Terms, func(int64) User { return second }) {
			t.Fatal("nobody can join")
		}
		for range 2 { // the second time it is not its user any more
			g.EndUnwanted(first)
			if _, live := g.Live(); !live || len(second.told()) > 0 {
				t.Fatalf("P18: the grant has ended for who joined it: %v", second.told())
			}
		}
		if told := first.told(); !slices.Equal(told, []Reason{Unwanted}) {
			t.Errorf("the first caller was told %v", told)
		}
		g.EndUnwanted(second)
		if _, live := g.Live(); live {
			t.Error("it goes on for nobody")
		}
	})
}
