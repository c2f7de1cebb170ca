package mysqllock

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/rowlock/rowlock/driver"
)

// stood is what came of a wait in line.
type stood struct {
	got    bool // the lock
	waited bool // another had it
	killed bool // the wait was ended: the lock may have come all the same
	err    error
}

// stand stands in line for the lock of key, for a few seconds or until ctx ends. One that
// leaves is taken out by KILL QUERY, so that the session can be used again; where that is
// not possible it leaves at the end of its time.
func (n *namedLocks) stand(ctx context.Context, c *conn, key string) (r stood) {
	heard, answered, done, unanswered := c.heard, make(chan struct{}), make(chan struct{}), false
	stay := context.AfterFunc(ctx, func() {
		defer close(done)
		unanswered = errors.Is(n.takeOut(c, heard, answered), errKillUnanswered)
	})
	wait, cancel := context.WithTimeout(context.WithoutCancel(ctx), lineSeconds*time.Second+lockWork)
	defer cancel()
	var found []lockAnswer
	_, err := c.once(wait, 0, func(ctx context.Context) (err error) {
		found, err = collect(ctx, c.sc, getLock(n.table, key), scanLockAnswer)
		return err
	})
	close(answered)
	if r.killed = !stay(); r.killed {
		<-done // it must not hit the next statement
		c.broken = c.broken || unanswered
	}
	switch number := number(err); {
	case number == erKilled:
	case number == 0 && err != nil:
		c.lose(err)
		r.err = err
	case err != nil:
		r.err = err
	case len(found) != 1, !found[0].got.Valid && !r.killed:
		r.err = fmt.Errorf("%w: GET_LOCK gives no answer", driver.ErrNotSupported)
	default:
		r.got, r.waited = found[0].got.Int64 == 1, found[0].by.Valid
	}
	return r
}

// takeOut ends the wait of a session that stands in line. A wait that has only just been sent
// does not show yet; so it goes on until the session has answered.
func (n *namedLocks) takeOut(c *conn, heard time.Time, answered <-chan struct{}) error {
	ctx, cancel := context.WithTimeout(context.Background(), killWait)
	defer cancel()
	for {
		err := n.db.kill(ctx, c, "QUERY", heard)
		if !errors.Is(err, errNotOurs) {
			return err
		}
		select {
		case <-answered:
			return nil
		case <-ctx.Done():
			return err
		case <-time.After(leaveAgain):
		}
	}
}

// lockAnswer is who had the lock before, and whether it was got.
type lockAnswer struct{ by, got sql.NullInt64 }

func scanLockAnswer(rows *sql.Rows) (a lockAnswer, err error) {
	err = rows.Scan(&a.by, &a.got)
	return a, err
}

// getLock waits for the named lock of a key, and says whether another session had it:
// the server evaluates a select list from left to right. The names are those of the whole
// server, without regard to case and at most 64 characters.
func getLock(table, key string) string {
	name := newText(160).add("CONCAT('rowlock:',LEFT(SHA2(CONCAT(DATABASE(),'.").add(table).add(".',").key(key).add("),256),40))").String()
	return newText(400).add("SELECT IS_USED_LOCK(").add(name).add("), GET_LOCK(").add(name).add(",").us64(lineSeconds).add(")").String()
}
