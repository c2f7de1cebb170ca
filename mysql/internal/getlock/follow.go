package getlock

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/mysql/internal/conn"
)

// The order of a line. A client that waits with a ticket has a named lock of its ticket, and waits
// for that of the ticket before it. Only the first of a line queues for the lock of the key. When it
// has the key, and its ticket is removed, it lets go of its ticket's lock, which wakes the one behind
// it to queue for that of the key. So a release wakes the next client and nobody else, in the
// order of the line. (After the queue locks of Craig, and of Landin and Hagersten.)
//
// The lock of a ticket wakes and says nothing: who is woken, or has waited for long, reads who
// stands before it. So it costs no more than that when a client dies or leaves. Those behind a
// client without a session find its lock free while its ticket is there: they look a few times,
// and queue for the lock of the key then, where their turn may come too early.
//
// Nobody waits while it has the lock of the key, and the others wait for tickets before their
// own; so they cannot wait for each other in a circle.

// Place is that of a client in the line of a key.
type Place struct {
	Seq     int64 // of its ticket
	Nearest int64 // that of the nearest ticket before it, as was said a moment ago; 0: not known

	// Look reads the Seq of the nearest live ticket before it; 0: there is none.
	Look func(ctx context.Context, c *conn.Conn) (nearest int64, err error)
}

const (
	// followSeconds is how long a client waits for the lock of a ticket, before it looks whether that
	// is still the nearest: the ticket of one that has died is over by then.
	followSeconds = 1

	// maxMisses is how often the lock of the nearest ticket may be free, with a pause after each
	// time, before the client queues for the lock of the key.
	maxMisses = 5

	firstMiss = 8 * time.Millisecond // the first pause, twice as long after each

	// lookTimeout is how long a look may take. One that a slow server answers late is no failure.
	lookTimeout = WaitSeconds * time.Second
)

// follower is a client that waits for the lock of a key.
type follower struct {
	n     *Locks
	c     *conn.Conn
	key   string
	in    *Place // nil: it has no ticket
	alone bool   // it is to have no lock but that of its ticket
	own   bool   // it has that

	first time.Time // when it was told that nobody stood before it; zero: somebody did
}

// isFirst reports whether nobody stood before the client a moment ago.
func (f *follower) isFirst() bool {
	return !f.first.IsZero() && time.Since(f.first) < driver.TicketTime
}

// wait queues for the lock of the key, for a few seconds, when the client is the first of the line.
func (f *follower) wait(ctx context.Context) waitResult {
	if f.in == nil {
		return f.n.waitNamedLock(ctx, f.c, WaitStatement(f.n.table, f.key), scanLockAnswer)
	}
	if err := f.follow(ctx); err != nil || ctx.Err() != nil {
		return waitResult{err: err}
	}
	if f.alone {
		return f.queue(ctx, ticketLock(f.n.table, f.key, f.in.Seq), "1")
	}
	name := lockName(f.n.table, f.key)
	return f.queue(ctx, name, "GET_LOCK("+name+","+strconv.Itoa(WaitSeconds)+")")
}

// queue waits for the lock of that name by get, with the lock of the client's ticket.
func (f *follower) queue(ctx context.Context, name, get string) waitResult {
	own := "1"
	if !f.own {
		f.own, own = true, "GET_LOCK("+ticketLock(f.n.table, f.key, f.in.Seq)+",0)"
	}
	return f.n.waitNamedLock(ctx, f.c, "SELECT IS_USED_LOCK("+name+"), "+own+", "+get, scanFollowed)
}

// follow waits until the client is the first of the line, or the locks of tickets do not say so.
func (f *follower) follow(ctx context.Context) error {
	last := int64(0)
	for misses := 0; misses < maxMisses && ctx.Err() == nil; {
		nearest, err := f.nearest()
		if err != nil || nearest == 0 {
			return err
		}
		before := ticketLock(f.n.table, f.key, nearest)
		r := f.queue(ctx, before, "IF(GET_LOCK("+before+","+strconv.Itoa(followSeconds)+")=1,RELEASE_LOCK("+before+"),0)")
		switch {
		case r.err != nil:
			return r.err
		case !r.waited || r.got && nearest == last:
			conn.Sleep(ctx, firstMiss<<misses)
			misses++
		case nearest != last:
			misses = 0
		}
		last = nearest
	}
	return nil
}

// nearest is the Seq of the nearest ticket before the client's; 0: there is none.
func (f *follower) nearest() (seq int64, err error) {
	if seq, f.in.Nearest = f.in.Nearest, 0; seq != 0 {
		return seq, nil
	}
	ctx, cancel := context.WithTimeout(f.n.life, lookTimeout)
	defer cancel()
	sent := time.Now()
	f.first = time.Time{}
	if seq, err = f.in.Look(ctx, f.c); err != nil {
		return 0, fmt.Errorf("look who stands before: %w", err)
	}
	if seq == 0 {
		f.first = sent
	}
	return seq, nil
}

// ticketLock is the name of the lock of a ticket.
func ticketLock(table, key string, seq int64) string {
	return hashedName("rowlock-line:", table+"."+strconv.FormatInt(seq, 10), key)
}

// scanFollowed is scanLockAnswer, beside whether the client has the lock of its ticket: if not, the
// one behind it queues for the lock of the key too early.
func scanFollowed(rows *sql.Rows) (a lockAnswer, err error) {
	var own sql.NullInt64
	err = rows.Scan(&a.by, &own, &a.got)
	return a, err
}
