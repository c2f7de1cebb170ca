package conn

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http/httptrace"
	"sync/atomic"
	"time"
)

// A connection of a program's pool may be in any state: whoever used it before may have led it to another database, locked
// tables in it, changed its roles or its number. The driver resets nothing, and no SELECT sees all of it. So a Store uses
// connections that were dialled for it, and gives what was idle back as it was.
//
// database/sql does not tell which are. A dial is seen by the trace in the context that the driver hands to the dialler: net.Dialer
// calls it, on any network. Where the dialler drops the context a session's number tells: it is above the number of connections
// that the server had counted just before.
//
// A pool that is used up hands out what comes back. There a Store that waited for a new one would lose its leases: once it knows
// where the lock tables are, it takes such a connection and cleans it, as far as can be seen (cleanUsed).

// errNotDialled: no connection was seen to be dialled, although the pool had none idle.
var errNotDialled = errors.New("the pool gives connections that others may have used, and none is seen to be dialled for the Store: its dialler drops the context, and behind the address (a proxy) sessions are shared. Use Open")

// mostUnseen is how many connections are tried that should have been dialled, and were not seen to be.
const mostUnseen = 3

// dialled takes a connection out of the pool that was dialled for the caller; used: or one that came back to a pool which is used
// up. It waits for such a pool until then (zero: until ctx ends).
func (d *DB) dialled(ctx context.Context, by time.Time) (sc *sql.Conn, used bool, err error) {
	var idle []*sql.Conn // of the program's, taken out until one is dialled
	defer func() {
		for _, sc := range idle {
			_ = sc.Close()
		}
	}()
	var before count
	for broken, unseen := false, 0; ; {
		if last := len(idle) - 1; last >= 0 && d.usedUp() != nil { // by those: one makes room
			discard(idle[last])
			idle = idle[:last]
		}
		rests := d.SQL.Stats().Idle > 0
		full := d.usedUp() != nil
		var seen atomic.Bool
		sc, err := d.take(noting(ctx, &seen), by)
		switch {
		case brokenHandshake(err) && !broken && ctx.Err() == nil:
			broken = true
			continue
		case err != nil:
			return nil, false, err
		case d.own, seen.Load(): // nothing is put back into a pool of the Store's
			return sc, false, nil
		case rests:
			idle = append(idle, sc)
			continue
		case full && d.home.Load() != nil:
			return sc, true, nil
		case full:
			discard(sc)
		default:
			now, err := d.counted(ctx, sc)
			if now.since(before) {
				return sc, false, nil
			}
			before = now
			idle = append(idle, sc)
			if unseen++; unseen > mostUnseen {
				return nil, false, errors.Join(errNotDialled, err)
			}
		}
		if ctx.Err() != nil {
			return nil, false, ctx.Err()
		}
	}
}

// cleanUsed ends what a connection that others have used may hold: a transaction, and tables that are locked. (UNLOCK TABLES alone
// would commit.) The rest is brought to ours, or looked at, as on each. CONNECTION_ID() may have been set (pseudo_thread_id).
func (d *DB) cleanUsed(ctx context.Context, sc *sql.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, SilentFor) // it may be dead
	defer cancel()
	if err := d.rollBack(ctx, sc); err != nil {
		return err
	}
	d.Statements.Add(1)
	if _, err := sc.ExecContext(ctx, "UNLOCK TABLES"); err != nil {
		return err
	}
	c, err := d.counted(ctx, sc)
	if err != nil {
		return err
	}
	if c.says != c.session {
		return &unfit{why: fmt.Sprintf("the session says that it is %d, and is %d (pseudo_thread_id)", c.says, c.session)}
	}
	return nil
}

// noting is a context that notes that something is dialled with it.
func noting(ctx context.Context, seen *atomic.Bool) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{ConnectStart: func(string, string) { seen.Store(true) }})
}

// count is what a session says of its server; zero: nothing.
type count struct {
	server      string
	session     uint64 // its number
	says        uint64 // CONNECTION_ID()
	connections uint64 // that the server had until then, which is the number of the latest
}

// since reports whether the session was begun after the other count.
func (c count) since(before count) bool {
	return c.server != "" && c.server == before.server && c.session > before.connections
}

// counted asks a session for it. CONNECTION_ID() may have been set (pseudo_thread_id), so the list of sessions is asked for
// the one that runs this statement.
func (d *DB) counted(ctx context.Context, sc *sql.Conn) (c count, err error) {
	ctx, cancel := context.WithTimeout(ctx, SilentFor)
	defer cancel()
	d.Statements.Add(1)
	err = sc.QueryRowContext(ctx, fmt.Sprintf("SELECT ID,CONNECTION_ID(),"+ServerName+",(SELECT VARIABLE_VALUE FROM /*!80000 performance_schema */ /*M!100600 information_schema */ ."+
		"global_status WHERE VARIABLE_NAME='Connections') FROM information_schema.PROCESSLIST WHERE INFO LIKE '%%rowlock %x%%'", rand.Uint64())).Scan(&c.session, &c.says, &c.server, &c.connections)
	if err != nil {
		return count{}, err
	}
	return c, nil
}

// discard ends a connection for good. database/sql closes a connection whose user
// reports ErrBadConn, instead of handing it to the next.
func discard(sc *sql.Conn) {
	_ = sc.Raw(func(any) error { return sqldriver.ErrBadConn })
	_ = sc.Close()
}
