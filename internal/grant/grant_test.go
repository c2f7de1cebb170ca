package grant

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rowlock/rowlock/driver"
)

// TestEnds: a grant ends once, its user is told the first reason, and what follows from it
// is done: the loss is counted, and the hold undone where the database may still have it.
func TestEnds(t *testing.T) {
	for _, c := range []struct {
		reason Reason
		undone time.Duration // when; <0: not at all
		lost   uint64
	}{
		{Expired, margin, 1}, // not before the margin has passed
		{MaxHold, margin, 1},
		{Taken, -1, 1},
		{Removed, -1, 1},
		{Forced, -1, 1},
		{Closed, 0, 1},
		{CutOff, -1, 1},
		{Unwanted, 0, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			f := newFixture(t)
			undone := time.Duration(-1)
			f.release = func(h driver.Hold) (driver.Result, error) {
				undone = f.store.Now()
				if h.Undo != (c.reason == Unwanted) {
					t.Errorf("%d: undone with Undo %v", c.reason, h.Undo)
				}
				return driver.Result{Status: driver.Released, Final: true}, nil
			}
			g, l := f.add()
			cause := errors.New("cause")
			if !g.End(c.reason, cause) || g.End(Taken, nil) || g.HandOff(l, g.Terms, anyUser) {
				t.Errorf("%d: a grant ends once", c.reason)
			}
			g.Release(t.Context(), l, time.Second, false) // does nothing
			wait(time.Minute)
			if !slices.Equal(l.told(), []Reason{c.reason}) || l.why() != cause {
				t.Errorf("%d: the user was told %v", c.reason, l.told())
			}
			if undone != c.undone || f.Losses() != c.lost || f.Len() != 0 || len(f.ended()) != 1 || !f.ended()[0].Lost {
				t.Errorf("%d: undone at %v, want %v; %d losses; outcomes %+v", c.reason, undone, c.undone, f.Losses(), f.ended())
			}
		})
	}
}

func anyUser(int64) User { return &lease{} }

// TestHandOff: what keeps a grant from going to the next local caller.
func TestHandOff(t *testing.T) {
	for _, c := range []struct {
		name  string
		first func(*Terms)
		next  func(*Terms)
		held  time.Duration
		want  bool
	}{
		{"same terms", nil, nil, 0, true},
		{"another TTL", nil, func(t *Terms) { t.TTL++ }, 0, false},
		{"another margin", nil, func(t *Terms) { t.Margin++ }, 0, false},
		{"the next is guarded", nil, func(t *Terms) { t.Guarded = true }, 0, false},
		{"another owner", nil, func(t *Terms) { t.Owner = "another" }, 0, false},
		{"the first was guarded", func(t *Terms) { t.Guarded = true }, nil, 0, false},
		{"MinHold before", func(t *Terms) { t.MinHold = 1 }, nil, 0, false},
		{"MinHold behind", nil, func(t *Terms) { t.MinHold = 1 }, 0, false},
		{"MaxHold before", func(t *Terms) { t.MaxHold = time.Hour }, nil, 0, false},
		{"MaxHold behind", nil, func(t *Terms) { t.MaxHold = time.Hour }, 0, false},
		{"the next renews by hand", nil, noRenew, 0, false},
		{"the first renewed by hand", noRenew, nil, 0, true},
		{"half of the trust is left", noRenew, nil, trust / 2, true},
		{"less than half of the trust is left", noRenew, nil, trust/2 + 1, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t)
				g, l := f.add(func(t *Terms) {
					if c.first != nil {
						c.first(t)
					}
				})
				terms := Terms{TTL: ttl, Margin: margin}
				if c.next != nil {
					c.next(&terms)
				}
				wait(c.held)
				next := &lease{}
				took := func(token int64) User { next.token = token; return next }
				if got := g.HandOff(l, terms, took); got != c.want {
					t.Fatalf("handed off: %v, want %v", got, c.want)
				}
				if !c.want {
					if len(l.told()) != 0 {
						t.Errorf("the user was told %v", l.told())
					}
					return
				}
				if next.token != 1001 || !slices.Equal(l.told(), []Reason{HandedOff}) || g.HandOff(l, terms, took) {
					t.Errorf("token %d, the first was told %v", next.token, l.told())
				}
				renewed := f.renewed.Load()
				wait(ttl)
				if f.renewed.Load() == renewed || len(next.told()) != 0 {
					t.Errorf("not renewed for its next user: %v", next.told())
				}
			})
		})
	}
}

// TestHandOffTokens: no token beyond the range of the grant, and none after a guard.
func TestHandOffTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		g, l := f.add()
		n := 0
		for user := User(l); g.HandOff(user, g.Terms, func(token int64) User {
			if token >= 1000+driver.TokenRange {
				t.Fatalf("token %d", token)
			}
			user = &lease{}
			return user
		}) && n < driver.TokenRange; {
			n++
		}
		if n != driver.TokenRange-1 {
			t.Errorf("handed off %d times", n)
		}
		g, l = f.add()
		if _, ok := g.BeginGuard(&lease{}); ok {
			t.Error("a guard by a user that has not the grant")
		}
		if h, ok := g.BeginGuard(l); !ok || h.Stored != 1000 || g.HandOff(l, g.Terms, anyUser) {
			t.Error("a grant was handed off after a guard")
		}
	})
}
