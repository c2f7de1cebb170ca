package session

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/mysql/internal/conn"
)

// A session is a connection that can hold the lock of one row. A session that serves one
// key after the other costs a cycle no more than its own statements; one that is opened
// for it costs seven more. So they are kept for a while. They are beyond
// Options.Connections.

const (
	// MaxAttempts is how many acquires are under way at the same time.
	MaxAttempts = 16

	// idleSession is how long a session is kept for the next key.
	idleSession = 20 * time.Second

	// queueWait is the innodb_lock_wait_timeout of a session (conn.Session): a waiter keeps its place in the
	// server's queue for so long, and then goes to its end. One whose program died leaves no
	// longer-lived ghost in it.
	queueWait = 5 * time.Second
)

// room is how many sessions the pool of database/sql has room for beside the
// Store's own connections, and how many connections it allows (0: any number).
func (f *ForUpdate) room() (most, room int) {
	most = f.db.SQL.Stats().MaxOpenConnections
	if most == 0 {
		return 0, math.MaxInt
	}
	return most, most - f.Connections - f.Spare
}

// HoldLimit is how many keys can be held exclusively at a time; 0: any number.
func (f *ForUpdate) HoldLimit() int {
	if most, room := f.room(); most > 0 {
		return max(room, 1)
	}
	return 0
}

func newSessions(f *ForUpdate) *conn.Pool {
	return f.db.NewPool(conn.PoolOptions{
		Kind:    conn.Session,
		Holds:   true,
		Later:   true,
		IdleFor: idleSession,
		IdleMost: func() int {
			if time.Now().UnixNano() < f.full.Load() {
				return 0
			}
			return math.MaxInt
		},
		Room: func(open int) error {
			if most, room := f.room(); open >= room {
				return &driver.Error{NotApplied: true, Err: fmt.Errorf("%w: the pool allows %d, %d of them for keys, which are all in use: SetMaxOpenConns to more",
					errNoRoom, most, max(room, 0))}
			}
			return nil
		},
	})
}

// errNoRoom: the program's pool is too small for one more session.
var errNoRoom = errors.New("mysql: strategy for-update needs a connection for each held key")

// fullFor is for how long no idle session is kept after there was no connection left: those of others who wait for one may
// be the idle ones of this Store.
const fullFor = 5 * time.Second

// session takes one without any lock.
func (f *ForUpdate) session(ctx context.Context, ttl time.Duration) (*conn.Conn, error) {
	c, err := f.Sessions.GetFor(ctx, ttl)
	if errors.Is(err, conn.ErrPoolBusy) {
		err = fmt.Errorf("%w: %w", errNoRoom, err)
	}
	return c, f.noRoom(err)
}

// noRoom marks an error which says that there is no connection left for a session, or beside it. Idle sessions are closed then.
func (f *ForUpdate) noRoom(err error) error {
	if !errors.Is(err, errNoRoom) && !conn.NoConnection(err) {
		return err
	}
	f.full.Store(time.Now().Add(fullFor).UnixNano())
	f.Sessions.CloseIdle()
	marked := driver.Error{NotApplied: true}
	if known := (*driver.Error)(nil); errors.As(err, &known) {
		marked = *known
	}
	marked.NoRoom, marked.Err = true, err
	return &marked
}

// rollBack frees what a session has locked; where that fails it is not used again. completion_type was set when the session
// was made, and only statements of ours are sent on it: so the short text means the same as conn.Rollback, in each cycle.
func rollBack(ctx context.Context, session *conn.Conn) error {
	session.Locks = false
	_, err := session.Exec(ctx, 0, "ROLLBACK")
	if err != nil {
		session.Broken = true
	}
	return err
}

// sessionOver reports whether nothing is left of the broken session of an attempt that ended with err: it had no lock, or has ended.
func (f *ForUpdate) sessionOver(ctx context.Context, a *Attempt, err error) bool {
	if !a.hasRow && conn.Undone(err) {
		return true
	}
	_, gone := f.endSession(ctx, a.session)
	return gone
}

// endSession asks the server to end a session. ended: it did so now. gone: there is no
// such session, or there will not be in a moment.
func (f *ForUpdate) endSession(ctx context.Context, session *conn.Conn) (ended, gone bool) {
	ctx, cancel := context.WithTimeout(ctx, conn.KillWait)
	defer cancel()
	err := f.db.Kill(ctx, session, "CONNECTION", session.Heard)
	return err == nil, err == nil || conn.Number(err) == conn.ErNoSuchThread || f.db.Gone(ctx, session)
}
