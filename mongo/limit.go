package mongolock

import (
	"sync/atomic"
	"time"
)

// batchLimit learns how long the server takes for a command with several keys, so that
// one that is stopped was blocked and not only slow: on a loaded machine a limit that
// never changes stops every command, and splitting the batch is more work still.
type batchLimit struct{ perKey atomic.Int64 } // nanoseconds a key, of a slow one among the last commands

const (
	// firstPerKey is assumed until a command was observed: an idle server is faster.
	firstPerKey = 33 * time.Microsecond

	// overheadKeys is what a command takes beside its keys, in keys.
	overheadKeys = 32
	fewKeys      = 16

	// longWait bounds the wait, and with it how long one key can stop the others of
	// its command. A server that needs more for a command gets smaller ones.
	longWait = 250 * time.Millisecond
)

// of is how long a command with n keys may take: three times what is usual, but
// where that is slow not so much that the other keys wait long for a blocked one.
func (p *batchLimit) of(n int) time.Duration {
	share := time.Duration(p.perKey.Load())
	if share == 0 {
		share = firstPerKey
	}
	usual := time.Duration(n+overheadKeys) * share
	return min(partWait+min(3*usual, max(75*time.Millisecond, usual*3/2)), longWait)
}

// usualOne is what a command with one key takes.
func (p *batchLimit) usualOne() time.Duration {
	return time.Duration(p.perKey.Load()) * (1 + overheadKeys)
}

// ofOne is how long a command with one key may take, where an idle server gets idle.
// It learns by observeOne, in a limit of its own: of several keys one says nothing.
func (p *batchLimit) ofOne(idle time.Duration) time.Duration {
	if p.perKey.Load() == 0 {
		return idle
	}
	return min(idle+p.of(1)-partWait, longWait)
}

func (p *batchLimit) observeOne(d time.Duration) { p.learn(1, d) }

// observe learns from a command with n keys. A slow one counts at once, those that
// are faster little by little. One with few keys says nothing about a key.
func (p *batchLimit) observe(n int, d time.Duration) {
	if n >= fewKeys {
		p.learn(n, d)
	}
}

func (p *batchLimit) learn(n int, d time.Duration) {
	share := int64(d) / int64(n+overheadKeys)
	if last := p.perKey.Load(); share < last {
		share = last - (last-share)/8
	}
	p.perKey.Store(share)
}

// tooShort learns that the wait for n keys stopped a command that nothing blocked.
func (p *batchLimit) tooShort(n int) { p.observe(n, p.of(n)) }
