package rowlock

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/logs"
)

// standing is a call of Lead or Every: a caller that waits for as long as others do its work (see Wait.StandsBy), and
// whose loop should live as long as its program. What the database refuses for good is the end of a loop at its first use.
// Once the database has answered the loop, be it only that another has the key, the loop waits until somebody has mended that.
type standing struct {
	verb, key string
	loop      logs.Loop
	at        atomic.Pointer[acquirer] // nil: l has not called a Client yet
}

// acquirer is what a Locker has called for a standing caller.
type acquirer struct {
	c   *Client
	ttl time.Duration
}

const (
	// The time before a loop tries again what was refused: from a tenth of the TTL, or a second if that is shorter, to the TTL, or
	// ten seconds. So somebody leads soon after that was mended, and a server whose user is locked out is not asked too often.
	firstStand = time.Second
	lastStand  = 10 * time.Second
)

// option marks the acquire of s.
func (s *standing) option(set *settings) { set.standing = s }

// worksWith notes that an acquire of s has reached c.
func (s *standing) worksWith(c *Client, ttl time.Duration) {
	s.at.Store(&acquirer{c, ttl})
	s.loop.Use(&c.report)
}

// lease waits for the key, for as long as it takes. Its error ends the loop.
func (s *standing) lease(ctx context.Context, l Locker, opts []Option) (*Lease, error) {
	for {
		lease, err := leaseOf(ctx, s.verb, l, s.key, opts)
		if err == nil {
			s.loop.Worked()
			if s.at.Load() == nil { // l has kept the options to itself
				s.worksWith(lease.c, lease.c.opts.TTL)
			}
			return lease, nil
		}
		at := s.at.Load()
		if at == nil || !mayBeMended(err) || ctx.Err() != nil || at.c.isClosed() {
			return nil, err
		}
		n, ok := s.loop.Refused(ctx, "loop", s.verb, "key", s.key, "err", err)
		if !ok {
			return nil, err
		}
		at.c.pause(ctx, standFor(n, at.ttl))
		if ctx.Err() != nil {
			return nil, fmt.Errorf("%s %q: %w", s.verb, s.key, waitError(ctx, err))
		}
	}
}

// standFor is the time after the nth refusal in a row.
func standFor(n int, ttl time.Duration) time.Duration {
	first, last := min(ttl/10, firstStand), min(ttl, lastStand)
	return min(first<<min(n-1, 10), last)
}

// mayBeMended reports whether err is a refusal of the database's that somebody can end without a change of the program.
func mayBeMended(err error) bool {
	return driver.IsLasting(err) && !errors.Is(err, ErrClosed) && !errors.Is(err, ErrInvalid)
}
