package rowlock

import (
	"context"
	"fmt"
	"iter"
	"time"
)

// Leader says who leads: who has a key. See [Client.Observe].
//
// Leaders are exclusive holders. A key that is held with [Shared] or [Slots] is Held too, until
// the last of those holds ends: without an Owner, and with the Token of them all, which
// Info.Token is.
type Leader struct {
	Key string

	// Held reports whether somebody leads. A key that is only kept from others (MinHold)
	// after its release is not held.
	Held bool

	// Owner is whose hold it is (Options.Owner), for people. Where nobody leads Owner, Token
	// and Since are those of the last term that was seen; empty: none was.
	Owner string

	// Token is the term, as the database has it (Info.Token): it never falls. The leader's own
	// lease may have a larger one, up to the next term's: see Lease.Token. A later term whose
	// row has a smaller one gets the number after the last, about a second later: rows of
	// UniqueInsert have the time at which the attempt began, which may have waited in the server, and tokens
	// fall where the server's clock was set back after the key's row was reaped.
	Token int64

	Since time.Time     // when the term began (with Shared or Slots: the oldest hold), by the database's clock; zero: not known
	Left  time.Duration // until the hold ends if it is not renewed; 0 where nobody leads
}

// Observe yields who has key: the state now, and then each change, "nobody has it" among
// them. It is for programs that follow a leader (see [Lead]) without standing for election.
//
//	for leader, err := range locks.Observe(ctx, "report") {
//
// A state that lasted for less than about a second may be left out, and so may be all that
// happens while the body of the loop runs. An older term never follows a newer one: Token never
// falls. What is yielded was true when the database was asked, and may be over: for effects
// that must not be those of an old leader hand the lease's token on.
//
// A failure of the database is yielded as an error beside the last state, and is not the end:
// the first of an outage, and the first that will not pass by itself. If the database has answered before, the latter
// has a line in the log, too (Error). When it answers again the
// state is yielded. The sequence ends when ctx ends, without another value; when the client is
// closed, after an error that matches ErrClosed; and at once after ErrInvalid, for a bad key.
// It may be ranged over more than once, and by many: each loop begins with the state now.
//
// All keys that a client observes or waits for share their statements: a read a second, more
// where a hold could end or has just ended, and at most 20 a second together, however many
// loops there are. The client's own holds and the store's stream of releases, if it has one,
// are followed sooner. A loop has no goroutine of its own, and leaves none behind; the stream
// is closed some seconds after the last of them.
func (c *Client) Observe(ctx context.Context, key string) iter.Seq2[Leader, error] {
	return func(yield func(Leader, error) bool) {
		if err := c.checkObserve(ctx, key); err != nil {
			yield(Leader{Key: key}, fmt.Errorf("observe %q: %w", key, err))
			return
		}
		if ctx.Err() != nil {
			return
		}
		closed := fmt.Errorf("observe %q: %w", key, ErrClosed)
		loop, open := c.table.Observers.Enter(key)
		if !open {
			yield(Leader{Key: key}, closed)
			return
		}
		defer c.table.Observers.Leave(loop)
		for {
			switch {
			case ctx.Err() != nil:
				return
			case c.isClosed():
				yield(Leader(loop.Last), closed)
				return
			}
			news, tell := c.table.Observers.Next(loop)
			if tell {
				err := loop.Err
				if err != nil {
					err = fmt.Errorf("observe %q: %w", key, err)
				}
				if !yield(Leader(loop.Last), err) {
					return
				}
				continue
			}
			select {
			case <-news:
			case <-ctx.Done():
			case <-c.open.Done():
			}
		}
	}
}

// checkObserve checks the arguments of Observe.
func (c *Client) checkObserve(ctx context.Context, key string) error {
	switch {
	case c == nil:
		return fmt.Errorf("%w: the Client is nil", ErrInvalid)
	case ctx == nil:
		return fmt.Errorf("%w: the context is nil", ErrInvalid)
	}
	return checkKey(key)
}
