package command

import (
	"cmp"
	"sync/atomic"
	"time"
)

// Limit learns how long the server takes for a command with several keys, so that
// one that is stopped was blocked and not only slow: on a loaded machine a limit that
// never changes stops every command, and splitting the batch is more work still.
type Limit struct{ perKey atomic.Int64 } // nanoseconds a key, of a slow one among the last commands

const (
	// minWait is added for a document that a foreign transaction has written: no command
	// has less time.
	MinWait = 25 * time.Millisecond

	// firstPerKey is assumed until a command was observed: an idle server is faster.
	firstPerKey = 33 * time.Microsecond

	// overheadKeys is what a command takes beside its keys, in keys.
	overheadKeys = 32
	fewKeys      = 16

	// maxWait bounds the wait, and with it how long one key can stop the others of
	// its command. A server that needs more for a command gets smaller ones.
	MaxWait = 250 * time.Millisecond
)

// Of is how long a command with n keys may take: three times what is usual, but
// where that is slow not so much that the other keys wait long for a blocked one.
func (l *Limit) Of(n int) time.Duration {
	usual := time.Duration(n+overheadKeys) * l.share()
	return min(MinWait+min(3*usual, max(75*time.Millisecond, usual*3/2)), MaxWait)
}

// Most is how many keys a command may have, so that it is done before MaxWait on a server as slow as this one.
func (l *Limit) Most() int {
	return max(1, int((MaxWait-MinWait)*2/3/l.share())-overheadKeys)
}

// share is what a key of a command takes.
func (l *Limit) share() time.Duration {
	return cmp.Or(time.Duration(l.perKey.Load()), firstPerKey)
}

// usualSingle is what a command with one key takes.
func (l *Limit) usualSingle() time.Duration {
	return time.Duration(l.perKey.Load()) * (1 + overheadKeys)
}

// Single is how long a command with one key may take, where an idle server gets idle.
// It learns by ObserveSingle, in a Limit of its own: of several keys one says nothing.
func (l *Limit) Single(idle time.Duration) time.Duration {
	if l.perKey.Load() == 0 {
		return idle
	}
	return min(idle+l.Of(1)-MinWait, MaxWait)
}

// ObserveSingle learns from a command with one key.
func (l *Limit) ObserveSingle(d time.Duration) { l.learn(1, d) }

// Observe learns from a command with n keys. A slow one counts at once, those that
// are faster little by little. One with few keys says nothing about a key.
func (l *Limit) Observe(n int, d time.Duration) {
	if n >= fewKeys {
		l.learn(n, d)
	}
}

func (l *Limit) learn(n int, d time.Duration) {
	share := int64(d) / int64(n+overheadKeys)
	if last := l.perKey.Load(); share < last {
		share = last - (last-share)/8
	}
	l.perKey.Store(share)
}

// TooShort learns that the wait for n keys stopped a command that nothing blocked.
func (l *Limit) TooShort(n int) { l.Observe(n, l.Of(n)) }

// Forget forgets all that was learned.
func (l *Limit) Forget() { l.perKey.Store(0) }
