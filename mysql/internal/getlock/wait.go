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
	killed bool // the wait was ended: the lock may have come all the same
	err    error
}

// waitNamedLock waits in a statement that queues for the lock of a key, for as long as it does so or until
// ctx ends. One that leaves is taken out by KILL QUERY, so that the session can be used again;
// where that is not possible it leaves at the end of its time.
func (n *Locks) waitNamedLock(ctx context.Context, c *conn.Conn, key string) (r waitResult) {
	heard, answered, done, unanswered := c.Heard, make(chan struct{}), make(chan struct{}), false
	stay := context.AfterFunc(ctx, func() {
		defer close(done)
		unanswered = errors.Is(n.endWait(c, heard, answered), conn.ErrKillUnanswered)
	})
	wait, cancel := context.WithTimeout(context.WithoutCancel(ctx), WaitSeconds*time.Second+workTimeout)
	defer cancel()
	found, err := conn.QueryOnce(wait, c, WaitStatement(n.table, key), scanLockAnswer)
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
	case len(found) != 1, !found[0].Valid && !r.killed:
		r.err = fmt.Errorf("%w: GET_LOCK gives no answer", driver.ErrNotSupported)
	default:
		r.got = found[0].Int64 == 1
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

// scanLockAnswer reads whether the lock was got.
func scanLockAnswer(rows *sql.Rows) (got sql.NullInt64, err error) {
	err = rows.Scan(&got)
	return got, err
}

// WaitStatement waits for the named lock of a key, and says whether another session had it:
// the server evaluates a select list from left to right. The names are those of the whole
// server, without regard to case and at most 64 characters.
func WaitStatement(table, key string) string {
	name := lockName(table, key)
	return conn.NewText(400).Add("SELECT GET_LOCK(").Add(name).Add(",").Int(WaitSeconds).Add(")").String()
}

// lockName is the name of a key's lock. It fits into the 64 characters of one, whatever the key.
func lockName(table, key string) string {
	return conn.NewText(200).Add("CONCAT('rowlock:',LEFT(SHA2(CONCAT(DATABASE(),'.", table, ".',").Key(key).Add("),256),40))").String()
}
