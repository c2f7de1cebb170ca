package workload

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/rowlock/rowlock/dev/verify/fault"
	"github.com/rowlock/rowlock/dev/verify/history"
)

// Crew is the clients of a round. One that is killed is replaced at once by a new
// process with a new name, as a supervisor would do. What was done to them is
// recorded.
type Crew struct {
	rec  *history.Recorder
	task func(slot int) Task // without a name

	mu       sync.Mutex
	live     []*Client // by slot; nil: being replaced
	names    []string  // of all that ever were
	stopping bool
	failed   []error
	work     sync.WaitGroup
}

// Start starts n clients, and returns when they are at work. The task of each slot is
// the same for the member that takes the place of a killed one.
func Start(n int, rec *history.Recorder, task func(slot int) Task) (*Crew, error) {
	c := &Crew{rec: rec, task: task, live: make([]*Client, n)}
	var all sync.WaitGroup
	for slot := range n {
		t, _ := c.next(slot) // in this order: p1 is in slot 0
		all.Go(func() { c.start(slot, t) })
	}
	all.Wait()
	if err := c.err(); err != nil {
		return nil, errors.Join(err, c.Stop(0))
	}
	return c, nil
}

// next is the task of the next client of a slot; ok: false when the round ends.
func (c *Crew) next(slot int) (t Task, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopping {
		return t, false
	}
	t = c.task(slot)
	t.Name = fmt.Sprintf("p%d", len(c.names)+1)
	c.names = append(c.names, t.Name)
	return t, true
}

// add puts a new client into a slot.
func (c *Crew) add(slot int) {
	if t, ok := c.next(slot); ok {
		c.start(slot, t)
	}
}

// start starts a client.
func (c *Crew) start(slot int, t Task) {
	p, err := launch(t)
	if err == nil {
		if err = p.answer(); err != nil {
			err = fmt.Errorf("%w: %s", err, p.said())
			_ = p.cmd.Process.Kill()
			_ = p.wait()
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		c.failed = append(c.failed, fmt.Errorf("client %s: %w", t.Name, err))
		return
	}
	m := &Client{crew: c, slot: slot, name: t.Name, process: p}
	c.live[slot] = m
	if c.stopping {
		_ = p.stop()
	}
	c.work.Go(func() { c.wait(m) })
}

// wait waits for the end of a client. One that nobody killed must not end early or
// badly: that would be a bug of the library or of this program.
func (c *Crew) wait(m *Client) {
	err := m.wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.live[m.slot] == m {
		c.live[m.slot] = nil
	}
	if !m.killed && (err != nil || !c.stopping) {
		c.failed = append(c.failed, fmt.Errorf("client %s ended: %v: %s", m.name, err, m.said()))
	}
}

// Clients are those that live now.
func (c *Crew) Clients() []fault.Client {
	c.mu.Lock()
	defer c.mu.Unlock()
	var list []fault.Client
	for _, m := range c.live {
		if m != nil {
			list = append(list, m)
		}
	}
	return list
}

// Names are those of all clients that there were.
func (c *Crew) Names() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.names)
}

// Stop lets all clients come to an end, and kills those that take longer than
// patience. The error says which failed, then or before.
func (c *Crew) Stop(patience time.Duration) error {
	c.mu.Lock()
	c.stopping = true
	for _, m := range c.live {
		if m != nil {
			_ = m.stop()
		}
	}
	c.mu.Unlock()
	ended := make(chan struct{})
	go func() {
		c.work.Wait()
		close(ended)
	}()
	select {
	case <-ended:
		return c.err()
	case <-time.After(patience):
	}
	for _, m := range c.Clients() {
		m := m.(*Client)
		c.mu.Lock()
		if patience > 0 {
			c.failed = append(c.failed, fmt.Errorf("client %s did not come to an end within %v: %s", m.name, patience, m.said()))
		}
		m.killed = true
		c.mu.Unlock()
		_ = m.cmd.Process.Kill()
	}
	<-ended
	return c.err()
}

func (c *Crew) err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return errors.Join(c.failed...)
}
