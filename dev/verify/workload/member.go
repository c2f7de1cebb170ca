package workload

import (
	"errors"
	"fmt"
	"time"

	"github.com/rowlock/rowlock/dev/verify/history"
)

// Client is a client process in the hands of a fault.
type Client struct {
	*process
	crew   *Crew
	slot   int
	name   string
	killed bool // under the crew's lock, as frozen
	frozen *history.Event
}

// Name is its name in the history.
func (m *Client) Name() string { return m.name }

var errGone = errors.New("the process has gone")

// Kill ends it as kill -9 does, and starts another in its place.
func (m *Client) Kill() error {
	c := m.crew
	c.mu.Lock()
	if m.killed || c.live[m.slot] != m {
		c.mu.Unlock()
		return errGone
	}
	m.killed = true
	c.live[m.slot] = nil
	c.work.Add(1) // a Stop waits for the member that comes
	defer c.work.Done()
	e := c.rec.Begin(history.Event{Kind: history.Killed, Client: m.name})
	err := m.cmd.Process.Kill()
	c.mu.Unlock()
	if err != nil {
		return err
	}
	_ = m.wait()
	c.rec.End(e)
	c.mu.Lock()
	m.thawed()
	c.mu.Unlock()
	c.add(m.slot)
	return nil
}

// Freeze makes it stand still, as a long pause of its machine would.
func (m *Client) Freeze() error {
	m.crew.mu.Lock()
	defer m.crew.mu.Unlock()
	switch {
	case m.killed || m.crew.live[m.slot] != m:
		return errGone
	case m.frozen != nil:
		return errors.New("it is frozen already")
	}
	e := m.crew.rec.Begin(history.Event{Kind: history.Frozen, Client: m.name})
	if err := m.freeze(); err != nil {
		return err
	}
	m.frozen = &e
	return nil
}

// Thaw ends Freeze. One that was killed meanwhile needs none.
func (m *Client) Thaw() error {
	m.crew.mu.Lock()
	defer m.crew.mu.Unlock()
	if m.frozen == nil {
		return nil
	}
	err := m.thaw()
	m.thawed()
	return err
}

// thawed records the end of a freeze, after it.
func (m *Client) thawed() {
	if m.frozen != nil {
		m.crew.rec.End(*m.frozen)
		m.frozen = nil
	}
}

// StepWallClock makes the wall clock of the process wrong by d. It waits until that
// has happened, and needs a program built with -tags wallclock.
func (m *Client) StepWallClock(d time.Duration) error {
	if !wallClock {
		return fmt.Errorf("step the wall clock: this program was not built with -tags wallclock: %w", errors.ErrUnsupported)
	}
	m.crew.mu.Lock()
	gone := m.killed || m.crew.live[m.slot] != m
	m.crew.mu.Unlock()
	if gone {
		return errGone
	}
	return m.ask(order{Wall: d})
}
