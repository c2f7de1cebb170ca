package rowlock

import (
	"container/heap"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/key"
	"github.com/rowlock/rowlock/internal/undo"
)

// prober asks, for all keys that somebody waits for, whether they are free, and for
// all that somebody observes, who leads: one statement for all that are due. It makes the
// attempts too that are due by time alone: those that renew a hint or a gate, and those
// after a failure. Both share a budget: a client sends at most probeRate a second for any
// number of keys and waiters. Not of it are attempts for a key that was seen free, or told
// free. It runs only while there are such keys. Guarded by Client.mu.
type prober struct {
	c       *Client
	entries probeHeap
	running bool
	wake    chan struct{}
	budget  float64 // statements that may be sent now
	counted time.Duration
	tries   round
}

// probeEntry says when a key is due in the prober: one that callers wait for, or one that they
// observe.
type probeEntry struct {
	k     *keyEntry
	o     *observedKey
	due   time.Duration
	index int // in the heap, + 1; 0: not in it
}

// tries reports whether an attempt is due, and not a probe.
func (e *probeEntry) tries() bool { return e.k != nil && e.k.Planned() == key.Try }

// probed is a key of a probe: waited for, observed, or both.
type probed struct {
	k      *keyEntry
	o      *observedKey
	before undo.Left // of k: see Client.metOwn
}

func (q probed) name() string {
	if q.k != nil {
		return q.k.id.name
	}
	return q.o.name
}

const (
	probeRate    = 18 // statements a second, on average
	probeBurst   = 5
	probeTimeout = time.Second
)

func (p *prober) init(c *Client) {
	p.c = c
	p.wake = make(chan struct{}, 1)
	p.budget = probeBurst
}

// add plans what is due for k after d.
func (p *prober) add(k *keyEntry, d time.Duration) {
	k.probe.k = k
	p.plan(&k.probe, d)
}

func (p *prober) plan(e *probeEntry, d time.Duration) {
	e.due = p.c.now() + d
	if e.index > 0 {
		heap.Fix(&p.entries, e.index-1)
	} else {
		heap.Push(&p.entries, e)
	}
	if !p.running {
		p.running = true
		p.c.store.Work.Fork(p.run)
	} else if e.index == 1 {
		p.wakeUp()
	}
}

func (p *prober) wakeUp() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

func (p *prober) remove(k *keyEntry) { p.drop(&k.probe) }

func (p *prober) drop(e *probeEntry) {
	if e.index > 0 {
		heap.Remove(&p.entries, e.index-1)
	}
}

// run probes what is due until nothing waits or is observed.
func (p *prober) run() {
	c := p.c
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		due, sleep, end := p.collect()
		if end {
			return
		}
		if len(due) > 0 {
			p.probe(due)
			continue
		}
		timer.Reset(sleep)
		select {
		case <-timer.C:
		case <-p.wake:
		case <-c.open.Done():
		}
	}
}

// collect takes the keys whose probe is due, with those of which it would be soon, and
// starts the attempts that are due. Otherwise it says how long to sleep.
func (p *prober) collect() (due []probed, sleep time.Duration, end bool) {
	c := p.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || len(p.entries) == 0 {
		p.running = false
		return nil, 0, true
	}
	now := c.now()
	p.budget = min(probeBurst, p.budget+(now-p.counted).Seconds()*probeRate)
	p.counted = now
	for len(p.entries) > 0 && p.entries[0].due <= now && p.entries[0].tries() && !p.entries[0].k.failing {
		p.entries[0].k.step(key.Event{Kind: key.Due}) // removes it
	}
	if len(p.entries) == 0 {
		return nil, 0, false
	}
	if wait := p.entries[0].due - now; wait > 0 {
		return nil, wait, false
	}
	if p.budget < 1 {
		return nil, time.Duration((1-p.budget)/probeRate*float64(time.Second)) + time.Millisecond, false
	}
	p.tries.open = true
	var observed []*observedKey
	for len(p.entries) > 0 && len(due)+len(observed) < c.store.Limits.Batch && len(p.tries.batches) < probeBurst {
		e := p.entries[0]
		if e.due > now+key.LastProbe/2 || e.tries() && (e.due > now || !e.k.failing) {
			break
		}
		heap.Pop(&p.entries)
		if e.o != nil {
			observed = append(observed, e.o)
			continue
		}
		k := e.k
		fits := p.tries.fits(k)
		if fits && !k.hints && c.hints < maxHints {
			k.hints = true
			c.hints++
		}
		env := k.env()
		env.Hints = k.hints && fits
		tries := k.Step(key.Event{Kind: key.Due}, now, env).Do == key.Try
		if (tries || !fits) && k.hints && c.hints == maxHints { // the next key that has no place gets this one
			k.hints = false
			c.hints--
		}
		if tries { // it renews the hint or the gate, looks who stands before, or goes again after a failure
			k.act(key.Action{Do: key.Try})
		} else {
			k.probing = true
			due = append(due, probed{k: k, before: c.left(k.id)})
		}
	}
	p.sendTries()
	if due = c.observers.join(due, observed); len(due) > 0 {
		due = c.observers.rideAlong(due, now)
	}
	if len(due) > 0 {
		p.budget--
	}
	return due, 0, false
}

// sendTries sends the attempts of a round, out of the budget.
func (p *prober) sendTries() {
	p.budget -= float64(p.tries.submit(p.c.acquires, p.c.pinned))
}

// sentOthers notes statements that were sent about keys that callers wait for, beside probes.
// Called under c.mu.
func (p *prober) sentOthers(n int) {
	if p.running {
		p.budget -= float64(n)
	}
}

// probe asks for the state of keys, and moves their machines.
func (p *prober) probe(due []probed) {
	c := p.c
	keys := make([]string, 0, len(due))
	at := make(map[string]int, len(due)) // of a key in keys, which several entries may have
	for _, q := range due {
		name := q.name()
		if _, found := at[name]; !found {
			at[name] = len(keys)
			keys = append(keys, name)
		}
	}
	infos, err := c.store.Inspect(keys, probeTimeout)
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, q := range due {
		info := driver.Info{}
		if err == nil {
			info = infos[at[q.name()]]
		}
		if q.o != nil {
			c.observers.answer(q.o, info, err)
		}
		if k := q.k; k != nil {
			k.probing = false
			p.tries.open = info.Held || err != nil // what it tries is to leave a hint or a gate, or to learn why the probe failed
			k.probed(info, err, q.before)
		}
	}
	p.sendTries()
	if err == nil {
		c.report.Acquire.OK()
	}
}

// probeHeap is a container/heap by due.
type probeHeap []*probeEntry

func (h probeHeap) Len() int           { return len(h) }
func (h probeHeap) Less(i, j int) bool { return h[i].due < h[j].due }
func (h probeHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i+1, j+1
}

func (h *probeHeap) Push(x any) {
	e := x.(*probeEntry)
	*h = append(*h, e)
	e.index = len(*h)
}

func (h *probeHeap) Pop() any {
	old := *h
	e := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	e.index = 0
	return e
}
