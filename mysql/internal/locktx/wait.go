package locktx

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/mysql/internal/callertx"
	"github.com/rowlock/rowlock/mysql/internal/conn"
)

// wait locks the keys, in the server's queue for those that are not free,
// until limit ends, which is ctx or ends before it.
//
// MySQL has no FOR UPDATE that waits for a given time, the setting
// innodb_lock_wait_timeout is the caller's, and a context that ends during a
// statement makes the driver close the connection. So the statement is ended from
// outside, by KILL QUERY: the statement fails, its transaction goes on.
func (l *txLock) wait(ctx, limit context.Context, keys []string) ([]string, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	text := l.statement(keys, "")
	if limit.Done() == nil {
		names, err := l.rows(ctx, text)
		return names, lockError(err)
	}
	w := &txWait{l: l, ctx: ctx, limit: limit}
	var stop context.CancelFunc
	w.sending, stop = patient(ctx)
	defer stop()
	killable, err := w.identify()
	switch {
	case err != nil:
		return nil, lockError(err)
	case killable && limit.Err() == nil:
		return w.inQueue(text)
	}
	return w.poll(keys)
}

// patient is a context that ends two seconds after ctx: the time for the KILL and
// the answer to it. At its end the driver closes the connection.
func patient(ctx context.Context) (context.Context, context.CancelFunc) {
	late, cut := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		t := time.NewTimer(2 * conn.KillWait)
		defer t.Stop()
		select {
		case <-t.C:
			cut()
		case <-late.Done():
		}
	})
	return late, func() { stop(); cut() }
}

// txWait is one statement in the caller's transaction that waits.
type txWait struct {
	l       *txLock
	ctx     context.Context
	limit   context.Context // when to give up
	sending context.Context // of its statements

	id     uint64 // of the transaction's connection
	server string
	heard  time.Time
}

// identify finds out on which connection the transaction is, and whether KILL will
// reach it: a user may end the statements of its own name, whatever the host.
func (w *txWait) identify() (killable bool, err error) {
	// It must be there before w.heard: see kill.
	server, err := conn.Detached(w.ctx, w.l.db, "connect", func(ctx context.Context) (string, error) {
		ctl, err := w.l.db.Control.Get(ctx)
		if err != nil {
			return "", err
		}
		defer ctl.Put()
		return ctl.Server, nil
	})
	if err != nil {
		return false, err
	}
	w.heard = time.Now()
	w.l.db.Statements.Add(1)
	rows, err := w.l.tx.QueryContext(w.sending, "SELECT "+callertx.UTF8("CONNECTION_ID()")+","+callertx.UTF8(conn.ServerName)+","+callertx.UTF8("USER()")+" LIMIT 1")
	if err != nil {
		return false, err
	}
	defer rows.Close()
	if !rows.Next() {
		return false, errors.Join(rows.Err(), sql.ErrNoRows)
	}
	var user string
	if err := rows.Scan(&w.id, &w.server, &user); err != nil {
		return false, err
	}
	return w.server == server && login(user) == login(w.l.home.user) && !w.l.db.CannotKill.Load(), rows.Close()
}

// login is the name of a user without its host.
func login(user string) string { return user[:max(strings.LastIndexByte(user, '@'), 0)] }

// inQueue sends the statement, and the KILL when the time has come.
func (w *txWait) inQueue(text string) ([]string, error) {
	answered, over := make(chan struct{}), make(chan struct{})
	var killed error
	stop := context.AfterFunc(w.limit, func() { defer close(over); killed = w.kill(answered) })
	names, err := w.l.rows(w.sending, text)
	close(answered)
	if stop() {
		return names, lockError(err)
	}
	<-over // a KILL that is on its way would end the caller's next statement
	switch {
	case errors.Is(killed, conn.ErrKillUnanswered):
		return nil, fmt.Errorf("roll back: it may still end the transaction's next statement: %w: %w", killed, errors.Join(w.ctx.Err(), err))
	case err == nil:
		return names, nil
	case conn.Number(err) == conn.ErKilled:
		return nil, w.held()
	case conn.Number(err) == 0 && w.ctx.Err() != nil:
		return nil, fmt.Errorf("the connection was closed, so the transaction is undone: %w: %w", w.ctx.Err(), err)
	}
	return nil, lockError(err)
}

// kill ends the statement. A KILL may come before the statement does, so it is
// repeated until the statement is answered. One whose own answer did not come may
// still hit something.
func (w *txWait) kill(answered <-chan struct{}) (unanswered error) {
	for {
		ctx, cancel := context.WithTimeout(context.Background(), conn.KillWait)
		err := w.l.db.KillSession(ctx, w.id, w.server, w.heard)
		cancel()
		if errors.Is(err, conn.ErrKillUnanswered) {
			unanswered = err
		}
		t := time.NewTimer(50 * time.Millisecond)
		select {
		case <-answered:
			t.Stop()
			return unanswered
		case <-t.C:
		}
	}
}

// poll asks again and again, where no KILL could end a statement that waits. The
// keys that it has got stay locked between the tries, in the same order as always.
func (w *txWait) poll(keys []string) ([]string, error) {
	for try := 0; ; try++ {
		names, err := w.l.noWait(w.sending, keys)
		switch {
		case !errors.Is(err, rowlock.ErrHeld), errors.Is(err, driver.ErrConflict):
			return names, err
		case !conn.Pause(w.limit, 5*time.Millisecond<<min(try, 3)):
			return nil, w.held()
		}
	}
}

// waitOver is err, of a step that limit ends, or the error of a wait that ended where that is why. Then it
// does not match context.DeadlineExceeded, which says that ctx has ended.
func waitOver(ctx, limit context.Context, err error) error {
	if ctx.Err() == nil && limit.Err() != nil && errors.Is(err, limit.Err()) {
		return fmt.Errorf("%w: the wait is over: %v", rowlock.ErrHeld, err)
	}
	return err
}

// held is the error of a wait that ended.
func (w *txWait) held() error {
	if err := w.ctx.Err(); err != nil {
		return fmt.Errorf("%w: %w", rowlock.ErrHeld, err)
	}
	return fmt.Errorf("%w: the wait is over", rowlock.ErrHeld)
}
