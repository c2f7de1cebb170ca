package getlock

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/mysql/internal/conn"
)

// waitResult is what came of a wait.
type waitResult struct {
	got    bool // the lock
	waited bool // another had it
	killed bool // the wait was ended: the lock may have come all the same
	err    error
}

// waitNamedLock waits in a statement that queues for a lock, for as long as it does so or until
// ctx ends. One that leaves is taken out by KILL QUERY, so that the session can be used again;
// where that is not possible it leaves at the end of its time.
func (n *Locks) waitNamedLock(ctx context.Context, c *conn.Conn, statement string, scan func(*sql.Rows) (lockAnswer, error)) (r waitResult) {
	heard, answered, done, unanswered := c.Heard, make(chan struct{}), make(chan struct{}), false
	stay := context.AfterFunc(ctx, func() {
		defer close(done)
		unanswered = errors.Is(n.endWait(c, heard, answered), conn.ErrKillUnanswered)
	})
	wait, cancel := context.WithTimeout(context.WithoutCancel(ctx), WaitSeconds*time.Second+workTimeout)
	defer cancel()
	found, err := conn.QueryOnce(wait, c, statement, scan)
	close(answered)
	if r.killed = !stay(); r.killed {
		<-done // it must not hit the next statement
		c.Broken = c.Broken || unanswered
	}
	switch number := conn.Number(err); {
	case number == conn.ErKilled:
	case number == 0 && err != nil:
		c.Lose(err)
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

// endWait ends the wait of a session that queues. A wait that has only just been sent
// does not show yet; so it goes on until the session has answered.
func (n *Locks) endWait(c *conn.Conn, heard time.Time, answered <-chan struct{}) error {
	ctx, cancel := context.WithTimeout(context.Background(), conn.KillWait)
	defer cancel()
	for {
		err := n.db.Kill(ctx, c, "QUERY", heard)
		if !errors.Is(err, conn.ErrNotOurs) {
			return err
		}
		select {
		case <-answered:
			return nil
		case <-ctx.Done():
			return err
		case <-time.After(endWaitAgain):
		}
	}
}

// lockAnswer is who had the lock before, and whether it was got.
type lockAnswer struct{ by, got sql.NullInt64 }

func scanLockAnswer(rows *sql.Rows) (a lockAnswer, err error) {
	err = rows.Scan(&a.by, &a.got)
	return a, err
}

// WaitStatement waits for the named lock of a key, and says whether another session had it:
// the server evaluates a select list from left to right. The names are those of the whole
// server, without regard to case and at most 64 characters.
func WaitStatement(table, key string) string {
	name := lockName(table, key)
	return conn.NewText(400).Add("SELECT IS_USED_LOCK(").Add(name).Add("), GET_LOCK(").Add(name).Add(",").Int(WaitSeconds).Add(")").String()
}

// lockName is the name of a key's lock.
func lockName(table, key string) string { return hashedName("rowlock:", table, key) }

// hashedName is a name that fits into the 64 characters of one, whatever the key.
func hashedName(prefix, of, key string) string {
	return conn.NewText(200).Add("CONCAT('", prefix, "',LEFT(SHA2(CONCAT(DATABASE(),'.", of, ".',").Key(key).Add("),256),40))").String()
}
