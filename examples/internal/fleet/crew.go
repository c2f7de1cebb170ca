package fleet

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync"
	"time"
)

// Crew is a number of copies in one role, numbered from 1. One that is killed is
// replaced by a new one with a new number, as a supervisor would do. M is what
// they say. All methods but Stop are for the goroutine that reads Events.
type Crew[M any] struct {
	ctx    context.Context
	role   string
	task   func(member int) any
	events chan Event[M]
	work   sync.WaitGroup // whoever may still send an event

	mu       sync.Mutex
	members  map[int]*member // those that live
	all      []*Process
	last     int // the newest member's number
	stopping bool
	faults   []Fault // still to come
}

type member struct {
	*Process
	hit bool // a fault is on its way to it, or it is frozen
}

// Event is something that a member said, or that happened to it.
type Event[M any] struct {
	Member  int
	Kind    Kind
	Message M             // if it Said something
	For     time.Duration // how long it will be Frozen
	Err     error         // how it Failed
}

// Kind is the kind of an event.
type Kind int

// The kinds of events. Killed, Frozen and Thawed come just before it happens.
const (
	Said Kind = iota
	Killed
	Frozen
	Thawed
	Failed // it ended, and nobody killed it
)

// NewCrew starts n members, each with the task that the function makes for it.
// They are killed when ctx ends. Faults are what will happen to them; see Progress.
func NewCrew[M any](ctx context.Context, role string, n int, task func(member int) any, faults []Fault) (*Crew[M], error) {
	c := &Crew[M]{ctx: ctx, role: role, task: task, events: make(chan Event[M]), members: map[int]*member{}, faults: faults}
	for range n {
		if err := c.add(); err != nil {
			return nil, err
		}
	}
	context.AfterFunc(ctx, c.Stop)
	return c, nil
}

// Events are what the members say and what happens to them. The channel is closed
// when, after Stop, all have ended.
func (c *Crew[M]) Events() <-chan Event[M] { return c.events }

// Stop tells all members that nothing more will come, so that they end. Go on
// reading Events meanwhile.
func (c *Crew[M]) Stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopping {
		return
	}
	c.stopping = true
	for _, m := range c.members {
		_ = m.in.Close()
	}
	go func() {
		c.work.Wait()
		close(c.events)
	}()
}

// Reap waits for the end of all processes, once ctx has ended or Events is closed.
func (c *Crew[M]) Reap() {
	c.mu.Lock()
	all := slices.Clone(c.all)
	c.mu.Unlock()
	Reap(all...)
}

// add starts one more member.
func (c *Crew[M]) add() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopping {
		return nil
	}
	c.last++
	number := c.last
	p, err := Start(c.ctx, c.role, c.task(number))
	if err != nil {
		return err
	}
	c.members[number] = &member{Process: p}
	c.all = append(c.all, p)
	c.work.Go(func() { c.listen(number, p) })
	return nil
}

// listen hands on what a member says until it ends.
func (c *Crew[M]) listen(number int, p *Process) {
	for {
		e := Event[M]{Member: number}
		err := p.Receive(&e.Message)
		if err == nil {
			c.send(e)
			continue
		}
		c.mu.Lock()
		killed := c.members[number] == nil
		clean := c.stopping && errors.Is(err, io.EOF)
		delete(c.members, number)
		c.mu.Unlock()
		if !killed && !clean {
			c.send(Event[M]{Member: number, Kind: Failed, Err: err})
		}
		return
	}
}

func (c *Crew[M]) send(e Event[M]) {
	select {
	case c.events <- e:
	case <-c.ctx.Done():
	}
}
