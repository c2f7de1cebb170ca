package conn

import (
	"context"
	"time"
)

const (
	// WarmEvery is how often Warm looks, however often it is called.
	WarmEvery = 100 * time.Millisecond

	// renewWarm is how long a renewal waits for the control connection. It needs one only if
	// its row is locked, and then the lock wait ends it too; its own connection it needs in
	// any case, and both may take long to be opened.
	renewWarm = 100 * time.Millisecond

	// SpeakEvery is how often something is sent on the control connection, which may be
	// used for nothing else. The look at the socket does not keep the server from ending
	// it by wait_timeout, and one that is opened then is too young for the next KILL.
	SpeakEvery = 2 * time.Second
)

// Warm sees to it that a pool that is not in use has a connection that lives. The control
// pool needs it before a statement is sent: see kill. Nobody waits for the sign of life of
// one that looks alive, nor for longer than most.
func (p *Pool) Warm(ctx context.Context, most time.Duration) { waitWarm(ctx, p.startWarm(), most) }

// startWarm is Warm that waits for nothing: done is closed when the connection is there, or
// cannot be had; nil: there is nothing to wait for, or another waits for it.
func (p *Pool) startWarm() (done chan struct{}) {
	now := time.Now()
	p.mu.Lock()
	wait := now.Before(p.warmFrom)
	if !wait {
		p.warmFrom = now.Add(WarmEvery)
	}
	p.mu.Unlock()
	if wait {
		return nil
	}
	return p.Fill(0)
}

// waitWarm waits for what startWarm began.
func waitWarm(ctx context.Context, done chan struct{}, most time.Duration) {
	if done == nil {
		return
	}
	waiting, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	select {
	case <-done:
	case <-waiting.Done():
	}
}

// Fill opens a connection in the background if none is idle, and speaks on one that was
// not spoken on for long. done is closed when one is there, or cannot be had; nil: all
// are in use, so one lives.
func (p *Pool) Fill(silence time.Duration) (done chan struct{}) {
	if p.slots != nil {
		select {
		case p.slots <- struct{}{}:
		default:
			return nil
		}
	}
	done = make(chan struct{})
	p.db.Work(func() {
		ctx, cancel := context.WithTimeout(p.db.life, goesOn)
		defer cancel()
		c, err := p.take(ctx, silence)
		if err != nil {
			close(done)
			p.leave()
			p.mu.Lock()
			p.warmFrom = time.Now().Add(time.Second)
			p.mu.Unlock()
			return
		}
		sent := time.Now()
		if sent.Sub(c.Heard) < SpeakEvery {
			c.Put()
			close(done)
			return
		}
		close(done)
		spoken, cancel := context.WithTimeout(ctx, KillWait)
		defer cancel()
		if c.sc.PingContext(spoken) == nil {
			c.Heard = sent
		} else {
			c.Broken = true
		}
		c.Put()
	})
	return done
}
