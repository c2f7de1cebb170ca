package rowlock

import (
	"container/heap"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/key"
)

// prober asks, for all keys that somebody waits for, whether they are free: one
// statement for all that are due, paced so that a client sends at most about
// probeRate a second for any number of keys and waiters. It runs only while there
// are such keys. Guarded by Client.mu.
type prober struct {
	c       *Client
	places  placeHeap
	running bool
	wake    chan struct{}
	tokens  float64 // statements that may be sent now
	counted time.Duration
}

// place is where a key is in the prober.
type place struct {
	k     *keyed
	due   time.Duration
	index int // in the heap, + 1; 0: not in it
}

const (
	probeRate    = 18 // statements a second, on average
	probeBurst   = 5
	probeTimeout = time.Second
)

func (p *prober) init(c *Client) {
	p.c = c
	p.wake = make(chan struct{}, 1)
	p.tokens = probeBurst
}

// add plans what is due for k after d.
func (p *prober) add(k *keyed, d time.Duration) {
	s := &k.place
	s.k, s.due = k, p.c.now()+d
	if s.index > 0 {
		heap.Fix(&p.places, s.index-1)
	} else {
		heap.Push(&p.places, s)
	}
	if !p.running {
		p.running = true
		p.c.store.Work.Fork(p.run)
	} else if s.index == 1 {
		select {
		case p.wake <- struct{}{}:
		default:
		}
	}
}

func (p *prober) remove(k *keyed) {
	if k.place.index > 0 {
		heap.Remove(&p.places, k.place.index-1)
	}
}

// run looks at what is due until nothing waits.
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
			p.look(due)
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

// collect takes the keys that are to be looked at now, with those that would be soon, and
// starts the attempts that are due. Otherwise it says how long to sleep.
func (p *prober) collect() (due []*keyed, sleep time.Duration, end bool) {
	c := p.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || len(p.places) == 0 {
		p.running = false
		return nil, 0, true
	}
	now := c.now()
	p.tokens = min(probeBurst, p.tokens+(now-p.counted).Seconds()*probeRate)
	p.counted = now
	for len(p.places) > 0 && p.places[0].due <= now && p.places[0].k.Planned() == key.Try {
		p.places[0].k.step(key.Event{Kind: key.Due}) // removes it
	}
	if len(p.places) == 0 {
		return nil, 0, false
	}
	if wait := p.places[0].due - now; wait > 0 {
		return nil, wait, false
	}
	if p.tokens < 1 {
		return nil, time.Duration((1-p.tokens)/probeRate*float64(time.Second)) + time.Millisecond, false
	}
	tried := false
	for len(p.places) > 0 && len(due) < c.store.Limits.Batch {
		s := p.places[0]
		if s.due > now+key.LastProbe/2 || s.k.Planned() == key.Try {
			break
		}
		heap.Pop(&p.places)
		k := s.k
		if !k.hints && c.hints < maxHints {
			k.hints = true
			c.hints++
		}
		if k.Step(key.Event{Kind: key.Due}, now, k.env()).Do == key.Try { // renews the hint
			tried = true
			k.do(key.Action{Do: key.Try})
		} else {
			k.looking = true
			due = append(due, k)
		}
	}
	if tried {
		p.tokens--
	}
	if len(due) > 0 {
		p.tokens--
	}
	return due, 0, false
}

// look asks for the state of keys, and moves them.
func (p *prober) look(due []*keyed) {
	c := p.c
	keys := make([]string, len(due))
	for i, k := range due {
		keys[i] = k.name
	}
	infos, err := c.store.Inspect(keys, probeTimeout)
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, k := range due {
		info := driver.Info{}
		if err == nil {
			info = infos[i]
		}
		k.looking = false
		k.looked(info, err)
	}
	if err == nil {
		c.report.Acquire.OK()
	}
}

// placeHeap is a container/heap by due.
type placeHeap []*place

func (h placeHeap) Len() int           { return len(h) }
func (h placeHeap) Less(i, j int) bool { return h[i].due < h[j].due }
func (h placeHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i+1, j+1
}

func (h *placeHeap) Push(x any) {
	s := x.(*place)
	*h = append(*h, s)
	s.index = len(*h)
}

func (h *placeHeap) Pop() any {
	old := *h
	s := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	s.index = 0
	return s
}
