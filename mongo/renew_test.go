package mongolock

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/mongo/internal/command"
	"github.com/rowlock/rowlock/mongo/internal/document"
)

func TestRenewalNeverShortens(t *testing.T) {
	t.Parallel()
	s := shared(t)
	h := granted(t, s, request("k"))
	ghost := h
	ghost.TTL = time.Second
	if st := renew(t, s, ghost); st != driver.Alive {
		t.Errorf("%v, want alive", st)
	}
	if i := inspect(t, s, "k"); i.Left < 50*time.Second {
		t.Errorf("a late renewal left %v of a minute", i.Left)
	}
	h.TTL = time.Hour
	renew(t, s, h)
	if i := inspect(t, s, "k"); i.Left < 59*time.Minute {
		t.Errorf("%v left, want an hour", i.Left)
	}
}

func TestRenewalOfManyTTLs(t *testing.T) {
	t.Parallel()
	s := shared(t)
	start := time.Now()
	holds := grantedAll(t, s, requests("k", 6))
	for i := range holds {
		holds[i].TTL = time.Duration(i/2+2) * time.Minute
	}
	holds[0].MaxHold = 90 * time.Second
	// A server under load may not finish it in time: then it is sent again, in parts.
	var results []driver.Result
	inOne := func() bool {
		before := s.Statements()
		var err error
		if results, err = s.Renew(t.Context(), holds); err != nil && !command.Blocked(err) {
			t.Fatal(err)
		}
		late := slices.ContainsFunc(results, func(r driver.Result) bool { return r.Status == driver.Unknown })
		return err == nil && !late && s.Statements()-before == 1
	}
	for tries := 1; !inOne(); tries++ {
		if tries == 20 {
			t.Fatalf("%d times not all were renewed with one command: %+v", tries, results)
		}
	}
	for i, r := range results {
		want := holds[i].TTL
		if i == 0 {
			want = holds[0].MaxHold
		}
		if left := inspect(t, s, holds[i].Key).Left; r.Status != driver.Alive || left > want || left < want-time.Since(start)-time.Second {
			t.Errorf("%q: %v with %v left, want %v", holds[i].Key, r.Status, left, want)
		}
	}
}

func TestLargeRenewal(t *testing.T) {
	t.Parallel()
	s := shared(t)
	var holds []driver.Hold
	for _, n := range []int{maxBatch, maxRenewals - maxBatch} {
		holds = append(holds, grantedAll(t, s, requests(fmt.Sprint("k", n, "-"), n))...)
	}
	results, err := s.Renew(t.Context(), holds)
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range results {
		if r.Status != driver.Alive {
			t.Errorf("%q: %v (%v)", holds[i].Key, r.Status, r.Err)
		}
	}
	if n := s.Limits().Renewals; n != maxRenewals {
		t.Errorf("Limits tell of %d renewals in a call, want %d", n, maxRenewals)
	}
	if _, err := s.Renew(t.Context(), append(holds, holds[0])); !driver.IsLasting(err) {
		t.Errorf("a renewal that is too large: %v", err)
	}
}

func TestLossHasAReason(t *testing.T) {
	t.Parallel()
	s := shared(t)
	holds := grantedAll(t, s, requests("k", 6))
	want := []driver.Status{driver.Alive, driver.Released, driver.Taken, driver.Forced, driver.Removed, driver.Alive}
	release(t, s, holds[1])
	release(t, s, holds[2])
	granted(t, s, request("k2"))
	if _, err := s.ForceRelease(patient(t), "k3"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.db.Collection(s.leases).DeleteOne(t.Context(), document.ByKey("k4")); err != nil {
		t.Fatal(err)
	}
	results, err := s.Renew(t.Context(), holds)
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range results {
		if r.Status != want[i] {
			t.Errorf("renew k%d: %v, want %v", i, r.Status, want[i])
		}
		if one := renew(t, s, holds[i]); one != want[i] {
			t.Errorf("renew k%d alone: %v, want %v", i, one, want[i])
		}
	}
	// Taken by another that is gone again is not forced.
	gone := granted(t, s, request("gone"))
	release(t, s, gone)
	release(t, s, granted(t, s, request("gone")))
	if st := renew(t, s, gone); st != driver.Taken {
		t.Errorf("renew after another's hold: %v, want taken", st)
	}
	if i := inspect(t, s, "k3"); i.Held {
		t.Errorf("P5: a renewal revived a forced hold: %+v", i)
	}
	want[0], want[5] = driver.Released, driver.Released
	results, err = s.Release(patient(t), holds)
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range results {
		if r.Status != want[i] {
			t.Errorf("release k%d: %v, want %v", i, r.Status, want[i])
		}
	}
	if i := inspect(t, s, "k2"); !i.Held {
		t.Error("P5: a stale release freed another's hold")
	}
}

func TestP15_BlockedKeyInARenewal(t *testing.T) {
	t.Parallel()
	s := shared(t)
	const n = 200
	holds := grantedAll(t, s, requests("k", n))
	for i := range holds {
		holds[i].TTL = time.Hour
	}
	unblock := blockDocument(t, s.db.Collection(s.leases), document.KeyID("k0"))
	// A server under load may not finish the others in time either.
	all := func(name string, call func(context.Context, []driver.Hold) ([]driver.Result, error), want driver.Status) {
		done := make([]bool, n)
		for try := 0; slices.Contains(done[1:], false); try++ {
			start := time.Now()
			results, err := call(t.Context(), holds)
			t.Logf("%s of %d holds, one blocked: %v", name, n, time.Since(start))
			must(t, err)
			for i, r := range results {
				switch {
				case r.Status == driver.Unknown && driver.IsNotApplied(r.Err) && !driver.IsLasting(r.Err) && (i == 0 || try < 20):
				case i == 0 || r.Status != want:
					t.Fatalf("%s k%d: %v (%v), want %v, and of k0 unknown and not applied", name, i, r.Status, r.Err, want)
				default:
					done[i] = true
				}
			}
		}
	}
	all("renew", s.Renew, driver.Alive)
	all("release", s.Release, driver.Released)
	unblock()
	if r := release(t, s, holds[0]); r.Status != driver.Released {
		t.Errorf("release after the block: %v", r.Status)
	}
}
