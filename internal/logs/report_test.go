package logs

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// newReport makes a Report whose lines go to the handler.
func newReport() (*Report, *lines) {
	h, r, start := &lines{}, &Report{}, time.Now().Add(-time.Hour)
	r.Init(slog.New(h), func() time.Duration { return time.Since(start) })
	return r, h
}

// TestFailures: what fails together is one line, there is one more a minute, which says for how long, and one when all
// works again.
func TestFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, h := newReport()
		ctx := context.Background()
		start := time.Now()
		r.Renew.OK() // nothing to say
		for i := range 3 {
			r.Renew.More(1)
			r.Renew.Fail(ctx, 0, "key", i)
		}
		time.Sleep(gatherFor)
		for range 50 { // tries of the same three
			r.Renew.Fail(ctx, 0, "key", "k")
			time.Sleep(20 * time.Millisecond)
		}
		r.Renew.Less(2)
		r.Renew.OK() // one still fails
		time.Sleep(2 * time.Second)
		r.Renew.Less(1)
		r.Renew.OK()
		time.Sleep(2 * time.Second)
		want := []string{
			"WARN renewal failed, lease still trusted n=3 key=0",
			"INFO renewals are acknowledged again n=3 after=3.02s",
		}
		if got := h.got(); !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
		if first := h.at[0].Sub(start); first != gatherFor {
			t.Errorf("the first line after %v", first)
		}
	})
}

// TestALongOutage: one line when it begins, one a minute, and one at once when it is over; another outage begins anew.
func TestALongOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, h := newReport()
		for range 2 {
			r.Acquire.More(1)
			for range 150 {
				r.Acquire.Fail(context.Background(), 0)
				time.Sleep(time.Second)
			}
			r.Acquire.Less(1)
			r.Acquire.OK()
			time.Sleep(10 * time.Millisecond)
			once := []string{
				"WARN acquire failed, trying again n=1", "WARN acquire failed, trying again n=1 after=1m0.02s", "WARN acquire failed, trying again n=1 after=2m0.02s",
				"INFO acquires are answered again n=1 after=2m30s",
			}
			if got := h.got(); !slices.Equal(got[max(len(got)-len(once), 0):], once) {
				t.Errorf("%q, want %q", got, once)
			}
			time.Sleep(10 * time.Second)
		}
		if n := len(h.got()); n != 8 {
			t.Errorf("%d lines of two outages", n)
		}
	})
}

// TestFailuresWithoutAnEnd: one line a minute, and after a minute without a failure the next one is new.
func TestFailuresWithoutAnEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, h := newReport()
		for range 90 {
			r.Unknown.Fail(context.Background(), 1)
			time.Sleep(time.Second)
		}
		time.Sleep(2 * time.Minute)
		r.Unknown.Fail(context.Background(), 1)
		time.Sleep(2 * time.Minute)
		const line = "WARN outcome of an acquire is unknown; undoing it n="
		want := []string{line + "1", line + "60 after=1m0.02s", line + "29 after=2m0.02s", line + "1"}
		if got := h.got(); !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	})
}

// TestFailuresWithoutState: n counts them, and no line says that they are over.
func TestFailuresWithoutState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, h := newReport()
		r.Unknown.Fail(context.Background(), 1, "key", "a")
		r.Unknown.Fail(context.Background(), 2, "key", "b")
		r.Unknown.OK()
		time.Sleep(time.Minute)
		if got, want := h.got(), []string{"WARN outcome of an acquire is unknown; undoing it n=3 key=a"}; !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	})
}

// TestLosses: a line each, up to a number in ten seconds; the others are added up.
func TestLosses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, h := newReport()
		for i := range lossLines + 7 {
			r.Lost.Add(t.Context(), "key", i)
		}
		r.Flush()
		got := h.got()
		if want := fmt.Sprintf("ERROR more leases lost n=7 key=%d", lossLines); len(got) != lossLines+1 || got[lossLines] != want {
			t.Errorf("%d lines, the last is %q, want %q", len(got), got[len(got)-1], want)
		}
		time.Sleep(lossPeriod)
		r.Lost.Add(t.Context(), "key", "next")
		if got := h.got(); got[len(got)-1] != "ERROR lease lost key=next" {
			t.Errorf("in the next period: %q", got[len(got)-1])
		}
	})
}
