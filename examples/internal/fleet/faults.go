package fleet

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/rowlock/rowlock/examples/internal/timed"
)

// Fault is something that will happen to a member of a crew.
type Fault struct {
	At     int           // when the work has come this far
	Freeze time.Duration // it stands still for so long; 0: it is killed as by kill -9
}

// Faults spreads kills and freezes over work of a size: one in each part of it, at
// a random point and in random order. Where a process cannot be frozen it is
// killed instead.
func Faults(kills, freezes int, freeze time.Duration, size int) []Fault {
	list := make([]Fault, kills+freezes)
	for i := range list {
		if i < freezes && canFreeze {
			list[i].Freeze = freeze
		}
	}
	rand.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	for i := range list {
		// Not in the last tenth: the work should have to go on after each.
		list[i].At = int((float64(i) + rand.Float64()) / float64(len(list)) * 0.9 * float64(size))
	}
	slices.SortFunc(list, func(a, b Fault) int { return cmp.Compare(a.At, b.At) })
	return list
}

// Progress is to be called when a member has brought the work this far. If a fault
// is due, it hits that member at a random moment within the given time.
func (c *Crew[M]) Progress(number, done int, within time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.members[number]
	if c.stopping || m == nil || m.hit || len(c.faults) == 0 || done < c.faults[0].At {
		return
	}
	fault := c.faults[0]
	c.faults = c.faults[1:]
	m.hit = true
	delay := rand.N(within)
	c.work.Go(func() {
		_ = timed.Sleep(c.ctx, delay)
		if fault.Freeze > 0 {
			c.freeze(number, m, fault.Freeze)
		} else {
			c.kill(number, m)
		}
	})
}

// quiet tells that nothing is happening to any member.
func (c *Crew[M]) quiet() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range c.members {
		if m.hit {
			return false
		}
	}
	return true
}

// kill kills a member and starts another in its place.
func (c *Crew[M]) kill(number int, m *member) {
	c.tell(func() { c.log.Killed(number) })
	c.mu.Lock()
	delete(c.members, number)
	c.mu.Unlock()
	err := m.Kill()
	if err == nil {
		err = c.add()
	}
	if err != nil {
		c.tell(func() { c.log.Failed(number, err) })
	}
}

// freeze makes a member stand still for a time.
func (c *Crew[M]) freeze(number int, m *member, d time.Duration) {
	c.tell(func() { c.log.Frozen(number, d) })
	err := m.Freeze()
	if err == nil {
		_ = timed.Sleep(c.ctx, d)
		c.mu.Lock()
		m.hit = false
		c.mu.Unlock()
		c.tell(func() { c.log.Thawed(number) })
		err = m.Thaw()
	}
	if err != nil {
		c.tell(func() { c.log.Failed(number, err) })
	}
}
