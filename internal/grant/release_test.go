package grant

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rowlock/rowlock/driver"
)

// TestRelease: the user is told before the release is sent; the answer is the same for every
// caller; without one in time the release is repeated in the background.
func TestRelease(t *testing.T) {
	hint := driver.Hint{Client: 7, Left: time.Second}
	for _, c := range []struct {
		name    string
		async   bool
		answer  func() (driver.Result, error)
		want    Reason
		took    time.Duration
		late    uint64
		outcome Outcome
	}{
		{"released", false, func() (driver.Result, error) { return driver.Result{Status: driver.Released, Wanted: hint}, nil }, Released, 0, 0, Outcome{Hint: hint, Known: true}},
		{"taken", false, func() (driver.Result, error) { return driver.Result{Status: driver.Taken}, nil }, Taken, 0, 0, Outcome{}},
		{"taken, and nobody waits for the answer", true, func() (driver.Result, error) { return driver.Result{Status: driver.Taken}, nil }, Released, 0, 0, Outcome{}},
		{"failed", false, func() (driver.Result, error) { return driver.Result{}, errServer }, Released, 0, 1, Outcome{}},
		{"a slow answer", false, func() (driver.Result, error) {
			time.Sleep(time.Second)
			return driver.Result{Status: driver.Released}, nil
		}, Released, time.Second, 0, Outcome{Known: true}},
		{"a slow answer, and nobody waits for it", true, func() (driver.Result, error) {
			time.Sleep(time.Second)
			return driver.Result{Status: driver.Released}, nil
		}, Released, 0, 0, Outcome{Known: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t)
				g, l := f.add()
				sent := 0
				f.release = func(h driver.Hold) (driver.Result, error) {
					if sent++; sent > 1 { // in the background
						return driver.Result{Status: driver.Released, Final: true}, nil
					}
					if !slices.Equal(l.told(), []Reason{Released}) || !h.Asks {
						t.Errorf("sent when the user was told %v, Asks is %v", l.told(), h.Asks)
					}
					return c.answer()
				}
				start := time.Now()
				g.Release(t.Context(), l, 3*time.Second, c.async)
				if took := time.Since(start); took != c.took {
					t.Errorf("waited %v, want %v", took, c.took)
				}
				g.Release(t.Context(), l, 3*time.Second, c.async) // a second one sends nothing
				for range 2 {
					if reason, _ := g.Answer(); reason != c.want {
						t.Errorf("the answer is %v, want %v", reason, c.want)
					}
				}
				wait(time.Minute)
				want := 1
				if c.name == "failed" {
					want = 2
				}
				if sent != want || f.Late() != c.late || !slices.Equal(f.ended(), []Outcome{c.outcome}) {
					t.Errorf("%d statements, %d late, outcomes %+v", sent, f.Late(), f.ended())
				}
			})
		})
	}
}

// TestReleaseWaitsNoLongerThanTrust: nor than patience, whatever the server does.
func TestReleaseWaitsNoLongerThanTrust(t *testing.T) {
	for _, c := range []struct{ held, patience, took time.Duration }{
		{0, 3 * time.Second, 3 * time.Second},
		{trust - time.Second, 3 * time.Second, time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			f := newFixture(t)
			g, l := f.add(noRenew)
			wait(c.held)
			f.hang = true
			start := time.Now()
			g.Release(context.Background(), l, c.patience, false)
			if took := time.Since(start); took != c.took {
				t.Errorf("held %v: waited %v, want %v", c.held, took, c.took)
			}
			if reason, _ := g.Answer(); reason != Released || f.Late() != 1 {
				t.Errorf("the answer is %v, %d late", reason, f.Late())
			}
		})
	}
}

// TestAwaitRelease: an attempt of the same client waits for the answer to a release on its
// way, for a bounded time.
func TestAwaitRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		g, l := f.add()
		start := time.Now()
		g.AwaitRelease(t.Context(), time.Minute) // none is on its way
		f.release = func(driver.Hold) (driver.Result, error) {
			time.Sleep(10 * time.Second)
			return driver.Result{Status: driver.Released}, nil
		}
		g.Release(t.Context(), l, 3*time.Second, true)
		g.AwaitRelease(t.Context(), time.Second)
		if took := time.Since(start); took != time.Second {
			t.Errorf("waited %v, want 1s", took)
		}
		g.AwaitRelease(t.Context(), time.Minute)
		if took := time.Since(start); took != 10*time.Second {
			t.Errorf("waited until %v, want 10s, when the answer came", took)
		}
	})
}
