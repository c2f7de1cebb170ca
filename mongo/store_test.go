package mongolock

import (
	"testing"
	"time"

	"github.com/rowlock/rowlock/driver"
)

func TestLifeOfALease(t *testing.T) {
	t.Parallel()
	s := shared(t)
	q := request("job")
	h := granted(t, s, q)
	if h.Token < driver.TokenRange || h.Stored != h.Token {
		t.Errorf("token %d, stored %d", h.Token, h.Stored)
	}
	i := inspect(t, s, "job")
	if !i.Held || i.Kept || i.Pinned || i.Owner != "test" || i.Token != h.Token || i.Left <= 50*time.Second || i.Left > time.Minute {
		t.Errorf("inspect: %+v", i)
	}
	if d := time.Since(i.Since); d < -time.Second || d > time.Minute {
		t.Errorf("since %v ago", d)
	}
	if r := acquire(t, s, request("job")); r.Status != driver.Held || r.Owner != "test" || r.Left <= 50*time.Second {
		t.Errorf("second acquire: %+v, want held by test for a minute", r)
	}
	if st := renew(t, s, h); st != driver.Alive {
		t.Errorf("renew: %v, want alive", st)
	}
	if r := release(t, s, h); r.Status != driver.Released {
		t.Errorf("release: %v, want released", r.Status)
	}
	if i := inspect(t, s, "job"); i.Held || i.Left != 0 || i.Token != h.Token || i.Owner != "test" {
		t.Errorf("inspect after release: %+v", i)
	}
	if st := renew(t, s, h); st != driver.Released {
		t.Errorf("renew after release: %v, want released", st)
	}
	if r := release(t, s, h); r.Status != driver.Released {
		t.Errorf("release again: %v, want released", r.Status)
	}
	h2 := granted(t, s, request("job"))
	if h2.Token < h.Token+driver.TokenRange {
		t.Errorf("next token %d after %d", h2.Token, h.Token)
	}
	if st := renew(t, s, h); st != driver.Taken {
		t.Errorf("renew of the old hold: %v, want taken", st)
	}
	if r := release(t, s, h); r.Status != driver.Taken {
		t.Errorf("release of the old hold: %v, want taken", r.Status)
	}
	if i := inspect(t, s, "job"); !i.Held || i.Token != h2.Token {
		t.Errorf("P5: the stale holder changed the key: %+v", i)
	}
}
