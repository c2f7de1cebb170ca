package fleet

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync"
)

// Crew is a number of copies in one role, numbered from 1. One that is killed is
// replaced by a new one with a new number, as a supervisor would do. M is what
// they say.
type Crew[M any] struct {
	ctx    context.Context
	cancel context.CancelFunc
	role   string
	task   func(member int) any
	log    *Log
	heard  func(member int, m M)
	events chan func()    // tells log or heard what happened
	work   sync.WaitGroup // goroutines that may still send an event

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

// NewCrew starts n members, each with the task that the function makes for it.
// They are killed when ctx ends. Faults are what will happen to them; see Progress.
// To be ended by End.
func NewCrew[M any](ctx context.Context, role string, n int, task func(member int) any, faults []Fault) (*Crew[M], error) {
	c := &Crew[M]{role: role, task: task, events: make(chan func()), members: map[int]*member{}, faults: faults}
	c.ctx, c.cancel = context.WithCancel(ctx)
	for range n {
		if err := c.add(); err != nil {
			c.End()
			return nil, err
		}
	}
	context.AfterFunc(c.ctx, c.stop)
	return c, nil
}

// Run tells heard what members say, and the log what happens to them, one thing at
// a time; heard may call Progress. When all is over and nothing is happening to any
// member, it tells them that nothing more will come, and goes on until all have
// ended. The error is why ctx ended, if it did. Call it once.
func (c *Crew[M]) Run(log *Log, heard func(member int, m M), over func() bool) error {
	c.log, c.heard = log, heard
	for tell := range c.events {
		tell()
		if over() && c.quiet() {
			c.stop()
		}
	}
	return context.Cause(c.ctx)
}

// End kills the members that still run, and waits for the end of all.
func (c *Crew[M]) End() {
	c.cancel()
	c.mu.Lock()
	all := slices.Clone(c.all)
	c.mu.Unlock()
	Reap(all...)
}

// stop lets all members end.
func (c *Crew[M]) stop() {
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

// listen passes on what a member says until it ends.
func (c *Crew[M]) listen(number int, p *Process) {
	for {
		var m M
		err := p.Receive(&m)
		if err == nil {
			c.tell(func() { c.heard(number, m) })
			continue
		}
		c.mu.Lock()
		killed := c.members[number] == nil
		clean := c.stopping && errors.Is(err, io.EOF)
		delete(c.members, number)
		c.mu.Unlock()
		if !killed && !clean {
			c.tell(func() { c.log.Failed(number, err) })
		}
		return
	}
}

func (c *Crew[M]) tell(what func()) {
	select {
	case c.events <- what:
	case <-c.ctx.Done():
	}
}
