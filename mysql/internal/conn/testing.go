package conn

import (
	"context"
	"slices"
	"time"
)

// What the tests of the packages above see and set. Nothing else uses it.

// Idle are the connections that are idle now.
func (p *Pool) Idle() []*Conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.idle)
}

// Open is how many connections there are, with those in use.
func (p *Pool) Open() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.open
}

// Warm is what each statement does with the control pool before it is sent.
func (p *Pool) Warm(ctx context.Context) { p.warm(ctx, KillWait) }

// Size is how many connections may be in use at the same time; 0: any number.
func (p *Pool) Size() int { return p.Max }

// Prepared are the statements that the connection keeps prepared.
func (c *Conn) Prepared() (texts []string) {
	for text, k := range c.kept {
		if k.stmt != nil {
			texts = append(texts, text)
		}
	}
	return texts
}

// AssumeShortestAnswer sets what the shortest answer of late was.
func (c *Conn) AssumeShortestAnswer(d time.Duration) {
	c.trip = &trip{since: time.Now(), least: [2]time.Duration{d, 0}}
}

// AssumeOpened sets when the connection was opened.
func (c *Conn) AssumeOpened(at time.Time) { c.opened = at }

// AssumeReady sets when the server had answered first.
func (c *Conn) AssumeReady(at time.Time) { c.ready = at }

// AssumePacket sets the largest packet that the server allows.
func (c *Conn) AssumePacket(bytes int) { c.packet = bytes }

// KnowsNet reports whether the network connection is known.
func (c *Conn) KnowsNet() bool { return c.net != nil }

// AssumeUsualAnswer sets how long an answer usually takes.
func (d *DB) AssumeUsualAnswer(usual time.Duration) { d.usual.Store(int64(usual)) }

// AssumeAbandoned notes a session as one whose statement was given up.
func (d *DB) AssumeAbandoned(server string, id uint64) { d.abandoned.add(server, id) }

// PrepareAfter sets how often a connection sends a statement with literals before it has
// it prepared.
func (d *DB) PrepareAfter(uses int) { d.keepAfter = uses }

// AwaitBackground waits for what runs in the background.
func (d *DB) AwaitBackground() { d.background.Wait() }

// Assume concludes it, at that time, or forgets it.
func (f *Conclusion) Assume(at time.Time) { f.since.Store(&at) }
