package enginetest

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/driver"
)

// reportOf is what a job wants that reads the tenant and writes one report of it.
func reportOf(report string, opts ...rowlock.Option) []rowlock.Want {
	return []rowlock.Want{
		{Key: "tenant/7/" + report, Options: opts},
		{Key: "tenant/7", Options: append([]rowlock.Option{rowlock.Shared()}, opts...)},
	}
}

func groupOf(t *testing.T, c *rowlock.Client, wants []rowlock.Want, opts ...rowlock.Option) *rowlock.Group {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	g, err := c.AcquireAll(ctx, wants, opts...)
	if err != nil {
		t.Fatalf("AcquireAll: %v", err)
	}
	return g
}

func releaseAll(t *testing.T, g *rowlock.Group) {
	t.Helper()
	if err := g.Release(context.Background()); err != nil {
		t.Error(err)
	}
}

// TestP22_MixedModes: two groups that read the same key are held at once, of one client and of
// two; who writes it waits for both, and keeps the next group out until it is done.
func TestP22_MixedModes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaultStore()
		c, other, writer := newClient(t, f), newClient(t, f), newClient(t, f)
		a, b := groupOf(t, c, reportOf("a")), groupOf(t, c, reportOf("b"))
		d := groupOf(t, other, reportOf("d"))
		if a.Leases()[1].Token() != d.Leases()[1].Token() {
			t.Errorf("readers of one phase have the tokens %d and %d", a.Leases()[1].Token(), d.Leases()[1].Token())
		}
		var held *rowlock.HeldError
		if _, err := other.TryAcquireAll(context.Background(), reportOf("a")); !errors.As(err, &held) || held.Key != "tenant/7/a" {
			t.Errorf("a report that another writes: %v", err)
		}
		if _, err := writer.TryAcquireAll(context.Background(), rowlock.Keys("tenant/7", "x")); !errors.As(err, &held) || held.Key != "tenant/7" {
			t.Errorf("P16: a tenant that others read: %v", err)
		}
		wrote := make(chan *rowlock.Group)
		go func() { wrote <- groupOf(t, writer, rowlock.Keys("x", "tenant/7", "a")) }()
		time.Sleep(time.Second)
		if got := heldKeys(t, f, "a", "tenant/7", "x"); len(got) != 2 { // what lies below the tenant
			t.Errorf("the writer that waits has %q", got)
		}
		next := make(chan *rowlock.Group)
		go func() { next <- groupOf(t, other, reportOf("e")) }()
		releaseAll(t, a)
		releaseAll(t, b)
		time.Sleep(time.Second)
		select {
		case <-wrote:
			t.Fatal("P16: the writer got the tenant beside a reader")
		case <-next:
			t.Fatal("P19: a group got the tenant although a writer waits for it")
		default:
		}
		releaseAll(t, d)
		w := <-wrote
		if w.Leases()[1].Token() <= d.Leases()[1].Token() {
			t.Errorf("P20: the writer's token %d is not above the readers' %d", w.Leases()[1].Token(), d.Leases()[1].Token())
		}
		time.Sleep(time.Second)
		releaseAll(t, w)
		releaseAll(t, <-next)
		if got := heldKeys(t, f, "a", "tenant/7", "tenant/7/a", "tenant/7/e", "x"); len(got) != 0 {
			t.Errorf("held at the end: %q", got)
		}
	})
}

// TestGroupReadsWhatItsClientWrites: a group that reads a key waits for an exclusive lease of
// its own client, with what lies below in hand, and is woken by its release.
func TestGroupReadsWhatItsClientWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaultStore()
		c := newClient(t, f)
		l := acquire(t, c, "tenant/7")
		got := make(chan *rowlock.Group)
		go func() { got <- groupOf(t, c, append(reportOf("a"), rowlock.Keys("b")...)) }()
		time.Sleep(time.Second)
		if held := heldKeys(t, f, "b", "tenant/7/a"); len(held) != 1 {
			t.Errorf("the group that waits has %q, want b", held)
		}
		before := time.Now()
		release(t, l)
		g := <-got
		if d := time.Since(before); d > 50*time.Millisecond {
			t.Errorf("the group had its keys %v after the release", d)
		}
		releaseAll(t, g)
	})
}

// TestGroupSharesAHold: a group whose reader got its key together with others of the client
// has its own end: that of the group leaves the key to the others, and is the last one's of none.
func TestGroupSharesAHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaultStore()
		c := newClient(t, f)
		w := acquire(t, newClient(t, f), "tenant/7")
		groups, lone := make(chan *rowlock.Group, 2), make(chan *rowlock.Lease)
		for _, report := range []string{"a", "b"} {
			go func() { groups <- groupOf(t, c, reportOf(report)) }()
		}
		go func() { defer close(lone); lone <- acquire(t, c, "tenant/7", rowlock.Shared()) }()
		time.Sleep(time.Second)
		release(t, w)
		a, b, l := <-groups, <-groups, <-lone
		if n := c.Stats().Held; n != 5 {
			t.Errorf("Stats.Held is %d with two groups and a reader", n)
		}
		acquires := len(f.seen("acquire"))
		more := acquire(t, c, "tenant/7", rowlock.Shared())
		if n := len(f.seen("acquire")) - acquires; n != 1 {
			t.Errorf("a reader beside groups sent %d acquires, want its own", n)
		}
		releaseAll(t, a)
		releaseAll(t, b)
		if l.Err() != nil || more.Err() != nil {
			t.Errorf("the end of groups ended readers: %v, %v", l.Err(), more.Err())
		}
		if got := heldKeys(t, f, "tenant/7", "tenant/7/a", "tenant/7/b"); len(got) != 1 {
			t.Errorf("held after the release of the groups: %q", got)
		}
		release(t, l)
		release(t, more)
		free(t, f, "tenant/7")
		if n := c.Stats().Losses; n != 0 {
			t.Errorf("%d losses", n)
		}
	})
}

// TestGroupWithSlots: each lease has the mode that was asked for it.
func TestGroupWithSlots(t *testing.T) {
	f := newFaultStore()
	c := newClient(t, f)
	wants := []rowlock.Want{{Key: "workers", Options: []rowlock.Option{rowlock.Slots(2)}}, {Key: "jobs", Options: []rowlock.Option{rowlock.Shared()}}, {Key: "job"}}
	a := groupOf(t, c, wants[:2])
	b, err := c.TryAcquireAll(context.Background(), wants[:2])
	if err != nil {
		t.Fatal(err)
	}
	if x, y := a.Leases()[0].Slot(), b.Leases()[0].Slot(); x == y || x < 0 || y < 0 || a.Leases()[1].Slot() != -1 {
		t.Errorf("slots %d and %d, a reader's %d", x, y, a.Leases()[1].Slot())
	}
	var held *rowlock.HeldError
	if _, err := c.TryAcquireAll(context.Background(), wants); !errors.As(err, &held) || held.Key != "workers" {
		t.Errorf("a third slot of 2: %v", err)
	}
	releaseAll(t, a)
	releaseAll(t, groupOf(t, c, wants))
	releaseAll(t, b)
	if got := heldKeys(t, f, "workers", "jobs", "job"); len(got) != 0 {
		t.Errorf("held at the end: %q", got)
	}
}

// TestBadModesOfGroups: what cannot be asked for is an error before anything is sent.
func TestBadModesOfGroups(t *testing.T) {
	f := newFaultStore()
	c := newClient(t, f)
	lacks := newFaultStore()
	lacks.limits = func(l *driver.Limits) { l.Modes = 0 }
	d := newClient(t, lacks)
	shared, slots := []rowlock.Option{rowlock.Shared()}, []rowlock.Option{rowlock.Slots(2)}
	for name, tc := range map[string]struct {
		c     *rowlock.Client
		wants []rowlock.Want
		opts  []rowlock.Option
		want  error
		says  string
	}{
		"one key in two modes":           {c, []rowlock.Want{{Key: "k", Options: shared}, {Key: "k"}}, nil, rowlock.ErrInvalid, "name each key once"},
		"one key shared twice":           {c, rowlock.Keys("k", "k"), shared, rowlock.ErrInvalid, "name each key once"},
		"a reader in a slot":             {c, []rowlock.Want{{Key: "k", Options: slots}}, shared, rowlock.ErrInvalid, "Slots(2)"},
		"MinHold of a reader":            {c, []rowlock.Want{{Key: "k", Options: shared}}, []rowlock.Option{rowlock.MinHold(time.Second)}, rowlock.ErrInvalid, "MinHold 1s"},
		"no such mode":                   {d, reportOf("a"), nil, rowlock.ErrNotSupported, "mode shared"},
		"no such mode for the first key": {d, rowlock.Keys("a"), slots, rowlock.ErrNotSupported, "mode slot"},
	} {
		_, err1 := tc.c.AcquireAll(context.Background(), tc.wants, tc.opts...)
		_, err2 := tc.c.TryAcquireAll(context.Background(), tc.wants, tc.opts...)
		for _, err := range []error{err1, err2} {
			if !errors.Is(err, tc.want) || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("%s: %v, want %v that says %q", name, err, tc.want, tc.says)
			}
		}
	}
	if n := f.Statements() + lacks.Statements(); n != 0 {
		t.Errorf("%d statements were sent", n)
	}
}
