package conn

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/go-sql-driver/mysql"
)

// Exec sends one statement and waits for the answer. With a bound above zero the
// statement is ended when it is unanswered for that long; the error then matches
// ErrBlocked, and nothing was changed. Other errors come back raw.
func (c *Conn) Exec(ctx context.Context, bound time.Duration, text string) (res sql.Result, err error) {
	if err := c.fits(text); err != nil {
		return nil, err
	}
	err = c.run(ctx, bound, func(ctx context.Context) error {
		res, err = c.sc.ExecContext(ctx, text)
		return err
	})
	return res, c.refusedSize(text, err)
}

// Query is exec for a statement that returns rows.
func Query[T any](ctx context.Context, c *Conn, bound time.Duration, text string, scan func(*sql.Rows) (T, error)) (found []T, err error) {
	if err := c.fits(text); err != nil {
		return nil, err
	}
	err = c.run(ctx, bound, func(ctx context.Context) error {
		found, err = Collect(ctx, c.sc, text, scan)
		return err
	})
	return found, c.refusedSize(text, err)
}

// Querier is what collect asks: a connection, or a transaction.
type Querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// Collect reads all rows of a question.
func Collect[T any](ctx context.Context, on Querier, text string, scan func(*sql.Rows) (T, error)) (found []T, err error) {
	rows, err := on.QueryContext(ctx, text)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		t, err := scan(rows)
		if err != nil {
			return nil, err
		}
		found = append(found, t)
	}
	return found, rows.Err()
}

// ScanOne reads the only column of a row.
func ScanOne[T any](rows *sql.Rows) (value T, err error) {
	err = rows.Scan(&value)
	return value, err
}

// ScanKey reads the only column of a row as bytes.
func ScanKey(rows *sql.Rows) (string, error) {
	var b sql.RawBytes
	err := rows.Scan(&b)
	return string(b), err
}

// run sends a statement, again where the server proved that it changed nothing
// and the next try may fare better: a deadlock, until ctx ends, because it is no business of
// the caller; or, a few times, a KILL QUERY that was not ours or came too late for the
// statement before. Where the transaction had locked something, which a deadlock undoes too, the connection is not used again.
func (c *Conn) run(ctx context.Context, bound time.Duration, send func(context.Context) error) error {
	for try := 1; ; try++ {
		ended, err := c.SendOnce(ctx, bound, send)
		n := Number(err)
		switch {
		case err == nil:
			return nil
		case n == ErLockWait, (n == ErKilled || n == ErDeadlock) && ended: // Galera answers a KILL QUERY by 1213
			c.db.Blocked.Add(1)
			return blockedError{err}
		case c.Locks && (n == ErDeadlock || n == ErSnapshot):
			c.Broken = true // a repeat would succeed without the lock
		case n == ErDeadlock, n == ErSnapshot, n == ErKilled && try < repeats:
			// A node of Galera answers 1213 for as long as the cluster changes its members.
			if Pause(ctx, time.Millisecond<<min(try, 5)) {
				continue
			}
			return fmt.Errorf("%w, tried %d times: %w", ctx.Err(), try, err)
		case errors.Is(err, mysql.ErrPktTooLarge): // nothing was written
		case n == 0, n == ErIdle:
			c.Lose(err)
		case CannotServe[n], ofSession[n]:
			c.Broken = true
		}
		return err
	}
}

// QueryOnce is query without a bound, and without a second try where a KILL ended it.
func QueryOnce[T any](ctx context.Context, c *Conn, text string, scan func(*sql.Rows) (T, error)) (found []T, err error) {
	_, err = c.SendOnce(ctx, 0, func(ctx context.Context) (err error) {
		found, err = Collect(ctx, c.sc, text, scan)
		return err
	})
	return found, err
}

// SendOnce sends a statement; ended tells that we ended it by KILL QUERY.
func (c *Conn) SendOnce(ctx context.Context, bound time.Duration, send func(context.Context) error) (ended bool, err error) {
	c.db.Statements.Add(1)
	if err := ctx.Err(); err != nil {
		return false, err
	}
	start := time.Now()
	kill := bound
	if c.Trip.distant() {
		kill = 0
	}
	sending, patience := ctx, time.Duration(0) // without end: see silence.go
	var cut context.CancelFunc
	if !c.pool.Holds || c.pool.Later && !c.Locks {
		patience = c.db.patience(ctx, start)
		sending, cut = context.WithCancel(ctx)
		defer cut()
	}
	e := c.db.watchdog.watch(c, start, kill, patience, cut)
	err = send(sending)
	now := time.Now()
	ended = c.db.watchdog.stop(ctx, e)
	if ended && !c.Broken && e.other && Number(err) == ErLockWait {
		c.db.CannotKill.Store(true) // it waited all the time, in another session than its number says
	}
	if e.silent && err != nil && Number(err) == 0 {
		return ended, ErrSilent
	}
	if err == nil && bound > 0 {
		c.db.NoteAnswer(now.Sub(start))
	}
	if n := Number(err); err == nil || n != 0 && n != ErIdle {
		c.Heard = start
		c.Trip.answered(now, now.Sub(start))
	}
	return ended, err
}

// Lose marks a connection of which we do not know what it does now. A statement
// that may still run on the server (and wait, and be granted something) is ended.
func (c *Conn) Lose(err error) {
	c.Broken, c.lost = true, true
	if !errors.Is(err, sqldriver.ErrBadConn) && !errors.Is(err, ErrSilent) && Number(err) == 0 {
		c.db.EndSession(c)
	}
}

// Pause waits for a random while of at most d; false: the context ended.
func Pause(ctx context.Context, d time.Duration) bool { return Sleep(ctx, d/2+rand.N(d/2+1)) }

// Sleep waits for d; false: the context ended.
func Sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
