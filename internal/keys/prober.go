package keys

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
// number of keys and waiters. Not of it are attempts and looks for a key that was seen free, or told
// free. It runs only while there are such keys. Guarded by Table.mu.
type prober struct {
	t       *Table
	entries probeHeap
	running bool
	wake    chan struct{}
	budget  float64 // statements that may be sent now
	counted time.Duration
	tries   round

	// How many hints and gates were renewed since then, in a Store without lines.
	hints      int
	hintsSince time.Duration
}

// probeEntry says when a key is due in the prober: one that callers wait for, or one that they
// observe.
type probeEntry struct {
	k     *keyEntry
	o     *observedKey
	due   time.Duration
	told  bool // something has said that the key may be had now
	index int  // in the heap, + 1; 0: not in it
}

// tries reports whether an attempt is due, and not a probe.
func (e *probeEntry) tries() bool { return e.k != nil && e.k.Planned() == key.Try }

// probed is a key of a probe: waited for, observed, or both.
type probed struct {
	k      *keyEntry
	o      *observedKey
	before undo.Left // of k: see Table.metOwn
}

func (q probed) name() string {
	if q.k != nil {
		return q.k.id.Name
	}
	return q.o.name
}

const (
	maxHints     = 16 // renewed in a second
	probeRate    = 18 // statements a second, on average
	probeBurst   = 5
	turnBurst    = 10 // after a look that found a key passed to this client
	probeShort   = 2  // with less left a look takes those along that would be due before the next
	probeTimeout = time.Second
)

func (p *prober) init(t *Table) {
	p.t = t
	p.wake = make(chan struct{}, 1)
	p.budget = probeBurst
}

// add plans what is due for k after d.
func (p *prober) add(k *keyEntry, d time.Duration) {
	k.probe.k = k
	p.plan(&k.probe, d)
}

func (p *prober) plan(e *probeEntry, d time.Duration) {
	e.due = p.t.Now() + d
	if e.index > 0 {
		heap.Fix(&p.entries, e.index-1)
	} else {
		heap.Push(&p.entries, e)
	}
	if !p.running {
		p.running = true
		p.t.Store.Work.Fork(p.run)
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
	t := p.t
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		looks, probes, sleep, end := p.collect()
		if end {
			return
		}
		if len(looks)+len(probes) > 0 {
			p.send(looks, probes)
			continue
		}
		timer.Reset(sleep)
		select {
		case <-timer.C:
		case <-p.wake:
		case <-t.Open.Done():
		}
	}
}

// collect takes the keys whose probe is due, with those of which it would be soon, and
// starts the attempts that are due. Otherwise it says how long to sleep. Keys with a line are looked at, the others probed: each
// takes a statement.
func (p *prober) collect() (looks, probes []probed, sleep time.Duration, end bool) {
	t := p.t
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed || len(p.entries) == 0 {
		p.running = false
		return nil, nil, 0, true
	}
	now := t.Now()
	p.budget = max(p.budget, min(probeBurst, p.budget+(now-p.counted).Seconds()*probeRate))
	p.counted = now
	if now >= p.hintsSince+time.Second {
		p.hints, p.hintsSince = 0, now
	}
	for len(p.entries) > 0 && p.entries[0].due <= now && p.entries[0].tries() && !p.entries[0].k.failing {
		p.entries[0].k.step(key.Event{Kind: key.Due}) // removes it
	}
	if len(p.entries) == 0 {
		return nil, nil, 0, false
	}
	if wait := p.entries[0].due - now; wait > 0 {
		return nil, nil, wait, false
	}
	told := p.entries[0].told
	if p.budget < 1 && !told {
		return nil, nil, time.Duration((1-p.budget)/probeRate*float64(time.Second)) + time.Millisecond, false
	}
	p.tries.open = true
	var due []probed
	var observed []*observedKey
	for len(p.entries) > 0 && len(due)+len(observed) < t.Store.Limits.Batch && len(p.tries.batches) < probeBurst {
		e := p.entries[0]
		if e.due > now+p.takesAlong() || e.tries() && (e.due > now || !e.k.failing) {
			break
		}
		heap.Pop(&p.entries)
		if e.o != nil {
			observed = append(observed, e.o)
			continue
		}
		k := e.k
		if a := k.Step(key.Event{Kind: key.Due}, now, k.env()); a.Do == key.Try {
			p.hints++
			k.do(a)
		} else {
			k.probing = true
			due = append(due, probed{k: k, before: t.left(k.id)})
		}
	}
	p.sendTries()
	if t.liner != nil {
		looks, due = due, nil
	}
	if probes = t.Observers.join(due, observed); len(probes) > 0 {
		probes = t.Observers.rideAlong(probes, now)
	}
	statements := min(len(looks), 1) + min(len(probes), 1)
	if told {
		statements--
	}
	p.budget -= float64(max(statements, 0))
	return looks, probes, 0, false
}

// takesAlong is how long before its time a probe goes with another that is due: the longer the fewer may be sent.
func (p *prober) takesAlong() time.Duration {
	switch {
	case p.t.liner == nil:
		return key.LastProbe / 2
	case p.budget < probeShort:
		return time.Second / probeRate
	default:
		return key.FirstProbe
	}
}

// sendTries sends the attempts of a round, out of the budget.
func (p *prober) sendTries() {
	p.budget -= float64(p.tries.submit(p.t.acquires, p.t.pinned))
}

// earn fills the budget after a look that found a key passed to this client: it is for those that wait on.
func (p *prober) earn() { p.budget = turnBurst }

// send looks at keys, and probes others.
func (p *prober) send(looks, probes []probed) {
	if len(looks) > 0 {
		p.t.look(looks)
	}
	if len(probes) > 0 {
		p.probe(probes)
	}
}

// probe asks for the state of keys, and moves their machines.
func (p *prober) probe(due []probed) {
	t := p.t
	keys := make([]string, 0, len(due))
	at := make(map[string]int, len(due)) // of a key in keys, which several entries may have
	for _, q := range due {
		name := q.name()
		if _, found := at[name]; !found {
			at[name] = len(keys)
			keys = append(keys, name)
		}
	}
	infos, err := t.Store.Inspect(keys, probeTimeout)
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, q := range due {
		info := driver.Info{}
		if err == nil {
			info = infos[at[q.name()]]
		}
		if q.o != nil {
			t.Observers.answer(q.o, info, err)
		}
		if k := q.k; k != nil {
			k.probing = false
			p.tries.open = info.Held || err != nil // what it tries is to leave a hint or a gate, or to learn why the probe failed
			k.probed(info, err, q.before)
		}
	}
	p.sendTries()
	if err == nil {
		t.Report.Acquire.OK()
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
