package mongolock

import (
	"sync/atomic"
	"time"
)

// pace learns how long the server takes for a command with several keys, so that
// one that is stopped was blocked and not only slow: on a machine that has enough
// to do a limit that never changes stops every command, and going on in parts is
// more work still.
type pace struct{ share atomic.Int64 } // nanoseconds a key, of a slow one among the last commands

const (
	// firstShare is taken for granted: an idle server is faster.
	firstShare = 33 * time.Microsecond

	// overhead is what a command takes beside its keys, in keys.
	overhead = 32
	fewKeys  = 16

	// longWait bounds the wait, and with it how long one key can stop the others of
	// its command. A server that needs more for a command gets smaller ones.
	longWait = 250 * time.Millisecond
)

// wait is how long a command with n keys may take: three times what is usual, but
// where that is slow not so much that the other keys wait long for a blocked one.
func (p *pace) wait(n int) time.Duration {
	share := time.Duration(p.share.Load())
	if share == 0 {
		share = firstShare
	}
	usual := time.Duration(n+overhead) * share
	return min(partWait+min(3*usual, max(75*time.Millisecond, usual*3/2)), longWait)
}

// usual is what a command with one key takes.
func (p *pace) usual() time.Duration { return time.Duration(p.share.Load()) * (1 + overhead) }

// waitOne is how long a command with one key may take, where an idle server gets idle.
// It learns by tookOne, in a pace of its own: of several keys one says nothing.
func (p *pace) waitOne(idle time.Duration) time.Duration {
	if p.share.Load() == 0 {
		return idle
	}
	return min(idle+p.wait(1)-partWait, longWait)
}

func (p *pace) tookOne(d time.Duration) { p.learn(1, d) }

// took learns from a command with n keys. A slow one counts at once, those that
// are faster little by little. One with few keys says nothing about a key.
func (p *pace) took(n int, d time.Duration) {
	if n >= fewKeys {
		p.learn(n, d)
	}
}

func (p *pace) learn(n int, d time.Duration) {
	share := int64(d) / int64(n+overhead)
	if last := p.share.Load(); share < last {
		share = last - (last-share)/8
	}
	p.share.Store(share)
}

// tooShort learns that the wait for n keys stopped a command that nothing blocked.
func (p *pace) tooShort(n int) { p.took(n, p.wait(n)) }
