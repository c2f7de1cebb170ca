package memory_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/memory"
)

// TestP20_AtOneMoment: tokens rise also where the clock does not.
func TestP20_AtOneMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, s := context.Background(), memory.New()
		id := byte(0)
		cycle := func(m driver.Mode) int64 {
			t.Helper()
			id++
			q := driver.Request{Key: "k", ID: driver.HoldID{id}, Mode: m, Slots: 1, Slot: -1, TTL: time.Second}
			r, err := s.Acquire(ctx, []driver.Request{q})
			if err != nil || r[0].Status != driver.Granted {
				t.Fatal(r, err)
			}
			h := driver.Hold{Key: "k", ID: q.ID, Mode: m, Token: r[0].Token, Stored: r[0].Stored, Phase: r[0].Phase}
			if r, err := s.Release(ctx, []driver.Hold{h}); err != nil || r[0].Status != driver.Released {
				t.Fatal(r, err)
			}
			return h.Token
		}
		last := int64(0)
		for _, m := range []driver.Mode{driver.Shared, driver.Slot, driver.Slot, driver.Slot, driver.Exclusive, driver.Shared, driver.Slot, driver.Slot} {
			token := cycle(m)
			if token < last+driver.TokenRange {
				t.Errorf("P20: token %d of mode %v after %d", token, m, last)
			}
			last = token
		}
		if _, err := s.ForceRelease(ctx, "k"); err != nil {
			t.Fatal(err)
		}
		if token := cycle(driver.Exclusive); token < last+driver.TokenRange {
			t.Errorf("P20: token %d after %d and a forced release", token, last)
		}
	})
}
