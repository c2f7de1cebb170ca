package fault

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"
)

// puppet is a client process that remembers what was done to it.
type puppet struct {
	mu    sync.Mutex
	verbs []string
	times []time.Time
	steps []time.Duration
}

func (p *puppet) note(verb string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.verbs, p.times = append(p.verbs, verb), append(p.times, time.Now())
	return nil
}

func (p *puppet) Name() string  { return "p1" }
func (p *puppet) Kill() error   { return p.note("kill") }
func (p *puppet) Freeze() error { return p.note("freeze") }
func (p *puppet) Thaw() error   { return p.note("thaw") }
func (p *puppet) StepWallClock(d time.Duration) error {
	p.steps = append(p.steps, d)
	return p.note("step")
}

// TestClients: they are killed; frozen for longer and for less than the TTL, and
// thawed even if the round ends meanwhile; their clocks are right again.
func TestClients(t *testing.T) {
	for name, want := range map[string][]string{
		"client-killed": {"kill"}, "client-frozen-long": {"freeze", "thaw"}, "client-frozen-short": {"freeze", "thaw"}, "client-clock-stepped": {"step", "step"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := All()[slices.IndexFunc(All(), func(f Fault) bool { return f.Name == name })]
			for seed := range uint64(3) {
				p := new(puppet)
				e := &Env{TTL: 200 * time.Millisecond, Rand: seeded(seed), Clients: func() []Client { return []Client{p} }}
				ctx, stop := context.WithCancel(t.Context())
				if seed == 2 {
					stop()
				}
				what, err := f.Inject(ctx, e)
				stop()
				if seed == 2 && err != nil {
					continue // nothing was begun
				}
				must(t, err)
				if !slices.Equal(p.verbs, want) || what == "" {
					t.Errorf("%v, %q", p.verbs, what)
				}
				if len(p.steps) == 2 && (p.steps[0] == 0 || p.steps[1] != 0) {
					t.Errorf("stepped by %v", p.steps)
				}
				if seed == 2 || len(p.times) < 2 {
					continue
				}
				if d := p.times[1].Sub(p.times[0]); name == "client-frozen-long" && d < e.TTL || name == "client-frozen-short" && d > 3*e.TTL {
					t.Errorf("frozen for %v, the TTL is %v", d, e.TTL)
				}
			}
		})
	}
}

// TestNobody: without clients there is nothing to do.
func TestNobody(t *testing.T) {
	for _, f := range clientFaults() {
		if what, err := f.Inject(t.Context(), &Env{TTL: time.Second, Rand: seeded(1)}); what != "" || err != nil {
			t.Errorf("%s: %q, %v", f.Name, what, err)
		}
	}
}

// TestTakenOnceAtATime: two faults that use the same wait for each other.
func TestTakenOnceAtATime(t *testing.T) {
	var mu sync.Mutex
	running := 0
	f := Fault{Name: "x", Uses: []string{"a", "b"}}.by(func(context.Context, *scene) (string, error) {
		mu.Lock()
		running++
		if running > 1 {
			t.Error("two at once")
		}
		mu.Unlock()
		time.Sleep(5 * time.Millisecond)
		mu.Lock()
		running--
		mu.Unlock()
		return "", nil
	})
	e := &Env{Rand: seeded(1)}
	var all sync.WaitGroup
	for range 5 {
		all.Go(func() { _, _ = f.Inject(t.Context(), e) })
	}
	all.Wait()
	ctx, stop := context.WithCancel(t.Context())
	stop()
	release, err := e.take(t.Context(), f.Uses)
	must(t, err)
	if _, err := f.Inject(ctx, e); err == nil {
		t.Error("it did not wait")
	}
	release()
}

func TestReaping(t *testing.T) {
	n := 0
	f := reaperFaults()[0]
	e := &Env{TTL: time.Second, Rand: seeded(1), Reap: func(context.Context) error { n++; return nil }}
	if what, err := f.Inject(t.Context(), e); err != nil || n < 2 || what == "" {
		t.Errorf("%d times, %q, %v", n, what, err)
	}
}

func TestForceRelease(t *testing.T) {
	n := 0
	f := reaperFaults()[1]
	e := &Env{TTL: time.Second, Rand: seeded(1), Spaces: []Space{{Name: "version", Keys: []string{"a", "b"}}},
		Force: func(_ context.Context, space string, keys []string) error {
			if n += len(keys); space != "version" {
				t.Errorf("in space %s", space)
			}
			return nil
		}}
	if what, err := f.Inject(t.Context(), e); err != nil || n < 1 || what == "" {
		t.Errorf("%d keys, %q, %v", n, what, err)
	}
}
