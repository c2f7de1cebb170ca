package enginetest

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/memory"
)

// FuzzOptions: whatever the durations are, they are refused with the name of one, or
// a lease under them works.
func FuzzOptions(f *testing.F) {
	ends := []int64{0, 1, -1, math.MaxInt64, math.MinInt64, math.MaxInt64 - 1, int64(366 * 24 * time.Hour), int64(366*24*time.Hour) + 1, int64(time.Second), 5_000_000}
	for n, a := range ends {
		f.Add(a, int64(0), int64(0), int64(0), int64(0), int64(0), int64(0))
		f.Add(int64(time.Minute), a, int64(0), int64(0), int64(0), int64(0), int64(0))
		f.Add(int64(time.Minute), int64(0), a, a, int64(0), int64(0), int64(0))
		f.Add(int64(0), int64(0), int64(0), a, a, int64(0), a)
		f.Add(int64(0), int64(0), int64(0), int64(0), int64(0), a, ends[(n+3)%len(ends)])
	}
	names := []string{"TTL", "Margin", "MaxHold", "MinHold", "ReleaseWait", "Handoff", "ReapInterval"}
	f.Fuzz(func(t *testing.T, ttl, margin, maxHold, minHold, releaseWait, handoff, reap int64) {
		store := memory.New()
		c, err := rowlock.New(store, rowlock.Options{
			TTL: time.Duration(ttl), Margin: time.Duration(margin), MaxHold: time.Duration(maxHold),
			ReleaseWait: time.Duration(releaseWait), Handoff: time.Duration(handoff), ReapInterval: time.Duration(reap),
		})
		if err == nil {
			defer c.Close(t.Context())
			var lease *rowlock.Lease
			lease, err = c.TryAcquire(t.Context(), "k", rowlock.MinHold(time.Duration(minHold)))
			if err == nil {
				if lease.Token() <= 0 || lease.Until().After(time.Now().Add(367*24*time.Hour)) {
					t.Errorf("token %d, until %v", lease.Token(), lease.Until())
				}
				if ttl == 0 || ttl > int64(time.Second) {
					if margin == 0 && lease.Err() != nil {
						t.Errorf("the lease was never good: %v", lease.Err())
					}
				}
				_ = lease.Release(t.Context())
				return
			}
			if !errors.Is(err, rowlock.ErrInvalid) { // shorter than this machine needs
				if ttl-margin > int64(10*time.Second) {
					t.Errorf("acquire: %v", err)
				}
				return
			}
		}
		if !errors.Is(err, rowlock.ErrInvalid) {
			t.Fatalf("%v", err)
		}
		for _, n := range names {
			if strings.Contains(err.Error(), n) {
				return
			}
		}
		t.Errorf("%v names no option", err)
	})
}

// FuzzKey: a key is refused before anything is sent, with its length, or comes back
// from the store byte for byte.
func FuzzKey(f *testing.F) {
	for _, k := range []string{"", "a", "A", "a ", "a\x00", "\x00", "é", "e\u0301", "\xff\xfe", "'; DROP TABLE rowlock_version; --", "x'00'", "$hold", "$$NOW", "%s", "\U0001F512", strings.Repeat("x", 255), strings.Repeat("x", 256), strings.Repeat("\xff", 100_000)} {
		f.Add(k, k)
	}
	f.Fuzz(func(t *testing.T, key, owner string) {
		store := memory.New()
		c, err := rowlock.New(store, rowlock.Options{Owner: owner, ReapInterval: -1})
		if len(owner) > 255 {
			if !errors.Is(err, rowlock.ErrInvalid) || !strings.Contains(err.Error(), fmt.Sprint(len(owner))) {
				t.Fatalf("owner of %d bytes: %v", len(owner), err)
			}
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close(t.Context())
		lease, err := c.TryAcquire(t.Context(), key)
		infos, listed := store.List(t.Context(), "", "", 10)
		if listed != nil {
			t.Fatal(listed)
		}
		if len(key) < 1 || len(key) > driver.MaxKey {
			if !errors.Is(err, rowlock.ErrInvalid) || len(infos) > 0 || len(err.Error()) > 500 {
				t.Fatalf("key of %d bytes: %v, %v", len(key), err, infos)
			}
			if len(key) > 0 && !strings.Contains(err.Error(), fmt.Sprint(len(key))) {
				t.Errorf("the error does not tell the length: %v", err)
			}
			if _, err := c.Inspect(t.Context(), key); !errors.Is(err, rowlock.ErrInvalid) {
				t.Errorf("inspect: %v", err)
			}
			return
		}
		if err != nil || lease.Key() != key || len(infos) != 1 || infos[0].Key != key {
			t.Fatalf("%q came back as %+v: %v", key, infos, err)
		}
		_, err = c.TryAcquire(t.Context(), key)
		if !errors.Is(err, rowlock.ErrHeld) || !strings.Contains(err.Error(), fmt.Sprintf("%q", key)) || strings.ContainsAny(err.Error(), "\n\x1b\x00") {
			t.Errorf("the error of a held key: %q", err)
		}
	})
}

// FuzzToken: no lease has a token out of range, and neither has one that is handed off.
func FuzzToken(f *testing.F) {
	for _, token := range []int64{0, 1, -1, math.MinInt64, math.MaxInt64, driver.MaxToken, driver.MaxToken + 1, driver.MaxToken - 1, math.MaxInt64 - 1} {
		f.Add(token)
	}
	f.Fuzz(func(t *testing.T, token int64) {
		f := newFaultStore()
		f.set(on("acquire", verdict{change: func(results []driver.Result) {
			for i := range results {
				results[i].Token = token
			}
		}}))
		c, err := rowlock.New(f, rowlock.Options{ReapInterval: -1, Handoff: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close(t.Context())
		lease, err := c.TryAcquire(t.Context(), "k")
		if token <= 0 || token > driver.MaxToken {
			if err == nil || !strings.Contains(err.Error(), `"k"`) || !driver.IsLasting(err) {
				t.Errorf("token %d: %v", token, err)
			}
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		if lease.Token() != token {
			t.Errorf("token %d, granted %d", lease.Token(), token)
		}
		last := token
		for range 3 {
			next := make(chan *rowlock.Lease)
			go func() {
				l, err := c.Acquire(t.Context(), "k")
				if err != nil {
					t.Error(err)
				}
				next <- l
			}()
			for c.Stats().Waiting == 0 {
				time.Sleep(100 * time.Microsecond)
			}
			_ = lease.Release(t.Context())
			if lease = <-next; lease == nil {
				return
			}
			if lease.Token() < last && lease.Token() != token || lease.Token() <= 0 {
				t.Errorf("token %d after %d", lease.Token(), last)
			}
			last = lease.Token()
		}
	})
}

// FuzzModes: whatever a store answers to a reader or slot, no lease has a token, phase or slot
// that cannot be, the error says which it was, and other keys do not suffer. Whatever n is,
// Slots refuses it with the number, or gives one below it.
func FuzzModes(f *testing.F) {
	ends := []int64{0, 1, 2, -1, math.MinInt64, math.MaxInt64, driver.MaxToken, driver.MaxToken + 1, 1 << 62}
	for i, a := range ends {
		f.Add(true, int64(3), a, int64(1024), int64(0))
		f.Add(true, int64(3), int64(2048), a, int64(0))
		f.Add(false, int64(3), a, ends[(i+2)%len(ends)], int64(0))
		f.Add(false, int64(3), int64(2048), int64(1024), a)
		f.Add(false, a, int64(2048), int64(1024), int64(0))
	}
	f.Add(false, int64(driver.MaxSlots), int64(2048), int64(1024), int64(driver.MaxSlots-1))
	f.Add(false, int64(driver.MaxSlots+1), int64(2048), int64(1024), int64(0))
	f.Fuzz(func(t *testing.T, reader bool, n, token, phase, slot int64) {
		if int64(int(n)) != n || int64(int(slot)) != slot {
			return // this machine has no such numbers
		}
		store := newFaultStore()
		store.set(on("acquire", verdict{change: func(results []driver.Result) {
			for i := range results {
				if results[i].Phase > 0 { // the other key is wanted exclusively
					results[i].Token, results[i].Stored, results[i].Phase, results[i].Slot = token, token, phase, int(slot)
				}
			}
		}}))
		c, err := rowlock.New(store, rowlock.Options{ReapInterval: -1})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close(t.Context())
		mode := rowlock.Slots(int(n))
		if reader {
			mode = rowlock.Shared()
		}
		lease, err := c.TryAcquire(t.Context(), "k", mode)
		if other, err := c.TryAcquire(t.Context(), "other"); err != nil || other.Err() != nil {
			t.Errorf("the other key: %v, %v", err, other.Err())
		}
		bad := token <= 0 || token > driver.MaxToken || phase <= 0 || phase > driver.MaxToken
		switch {
		case !reader && (n < 1 || n > driver.MaxSlots):
			if !errors.Is(err, rowlock.ErrInvalid) || !strings.Contains(err.Error(), fmt.Sprint(n)) {
				t.Errorf("Slots(%d): %v", n, err)
			}
			return
		case bad || !reader && (slot < 0 || slot >= n):
			if err == nil || !strings.Contains(err.Error(), `"k"`) || !driver.IsLasting(err) {
				t.Errorf("token %d, phase %d, slot %d of %d: %v, %v", token, phase, slot, n, lease, err)
			}
			return
		case err != nil:
			t.Fatal(err)
		}
		want := slot
		if reader {
			want = -1
		}
		if lease.Token() != token || int64(lease.Slot()) != want {
			t.Errorf("token %d, slot %d; the store said %d and %d", lease.Token(), lease.Slot(), token, want)
		}
		beside, err := c.TryAcquire(t.Context(), "k", mode) // a reader joins; a slot is another answer of the store
		if err == nil && (beside.Token() <= 0 || beside.Token() > driver.MaxToken || reader && beside.Token() != token) {
			t.Errorf("token %d beside %d", beside.Token(), token)
		}
	})
}
