package conn

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"
)

// A connection can die without a word: a firewall or a NAT forgets it, a host goes
// away. What is sent on it then is never answered, and waiting for the end of the
// trust would cost the lease. So a statement that has no answer after a second is
// asked about, on a newly dialled connection:
//
//   - the server answers there, and does not know the old connection, or shows it at
//     rest: the statement did not arrive, or its answer was lost. The old connection
//     is closed, and its session ended, so that nothing of it can come later.
//   - the server shows the old connection at work: it waits for a lock or for the
//     disk. It is waited for, and asked about again, each time later.
//   - another server answers: that is a new primary, or one of several behind a proxy,
//     which cannot say what the old one does. The second time, a second later, it counts as the first case.
//   - nothing answers: the server is silent, and a second connection to it is as good
//     as the first. It is waited for too.
//
// A statement that stands in the server's queue for a row is asked about as any other, but later, by as long as it may stand there; at
// once when another connection was found dead, or the server to be another.
//
// So a slow server is not taken for a dead connection. The sessions of SelectForUpdate that have
// a row locked, those of named locks and those of transactions are left alone: to close one is to
// give up what it holds. One that rested is tried before a transaction begins on it (Conn.Answers).

const (
	// SilentFor is how long a statement is unanswered before it is asked about. One that
	// has less than four times as much is asked about sooner: what is left must do for
	// another try.
	SilentFor   = time.Second
	silentLeast = 100 * time.Millisecond

	// mostSilence is the longest between two questions about one statement.
	mostSilence = 5 * time.Second

	// AskWait bounds a question: to dial, to log in, to ask.
	AskWait = 5 * time.Second

	// lateAnswer is how long, at least, an answer that was under way when the server
	// showed the session at rest may take to arrive.
	lateAnswer = 50 * time.Millisecond
)

// ErrSilent: the connection was closed because it gave no answer while the server
// answers on another.
var ErrSilent = errors.New("the connection gave no answer, while the server answers on a new one")

// Answers sees to it that a connection which rested gives a sign of life; what gives none is broken, and the
// error says so. It is for what begins a transaction: nothing asks about the statements of that.
func (c *Conn) Answers(ctx context.Context) error {
	if time.Since(c.Heard) < SilentFor {
		return nil
	}
	_, err := c.SendOnce(ctx, 0, c.sc.PingContext)
	if err != nil {
		c.Lose(err)
	}
	return err
}

// firstPatience is how long a statement with this context is waited for before it is
// asked about.
func firstPatience(ctx context.Context, now time.Time) time.Duration {
	if by, ok := ctx.Deadline(); ok {
		return min(SilentFor, max(by.Sub(now)/4, silentLeast))
	}
	return SilentFor
}

// ask is the question about all statements that have been unanswered for too long.
// One goroutine at a time runs it.
func (w *watchdog) ask() {
	for {
		w.mu.Lock()
		list := slices.DeleteFunc(w.silent, func(e *watch) bool { _, waits := w.waits[e]; return !waits })
		w.silent = nil
		w.asking = len(list) > 0
		w.mu.Unlock()
		if len(list) == 0 {
			return
		}
		w.judge(list)
	}
}

// judge cuts those of the statements whose connections are dead.
func (w *watchdog) judge(list []*watch) {
	ctx, cancel := context.WithTimeout(context.Background(), AskWait)
	defer cancel()
	q, err := w.db.question(ctx, list)
	if err == nil {
		defer q.conn.close()
		if slices.ContainsFunc(list, q.dead) {
			Sleep(ctx, max(lateAnswer, q.took))
		}
	}
	w.mu.Lock()
	var cut []*watch
	now := time.Now()
	if err == nil && slices.ContainsFunc(list, func(e *watch) bool {
		_, waits := w.waits[e]
		return waits && (q.server != e.c.Server || q.dead(e))
	}) {
		w.hurry(now)
	}
	for _, e := range list {
		switch _, waits := w.waits[e]; {
		case !waits:
		case err == nil && q.dead(e):
			e.silent = true
			cut = append(cut, e)
			w.db.distrust(e.start)
		default:
			e.patience = min(2*max(e.patience, SilentFor), mostSilence)
			if err == nil && q.server != e.c.Server {
				e.patience = SilentFor // to ask it once more is enough
			}
			e.ask, e.asked, e.judged = now.Add(e.patience), true, now
			w.arm(now, e.next())
		}
	}
	w.mu.Unlock()
	for _, e := range cut {
		e.cut()
	}
	for _, e := range cut { // their callers go on meanwhile
		q.end(ctx, e)
	}
}

// answer is what the server said about the sessions of silent connections.
type answer struct {
	conn   *Conn // on which it was asked
	server string
	took   time.Duration
	at     map[uint64]process
}

type process struct {
	id            uint64
	host, command string
	server        string
}

// question asks on a newly dialled connection what the server does for the statements.
func (d *DB) question(ctx context.Context, list []*watch) (*answer, error) {
	sc, _, err := d.dialled(ctx, time.Now().Add(AskWait))
	if err != nil {
		return nil, err
	}
	q := &answer{conn: &Conn{db: d, sc: sc}, at: make(map[uint64]process)}
	ids := make([]string, len(list))
	for i, e := range list {
		ids[i] = fmt.Sprint(e.c.ID)
	}
	d.Statements.Add(1)
	start := time.Now()
	// Our own session is in the answer too, so that there is a row in any case. The user's
	// own sessions are shown without a privilege.
	found, err := Collect(ctx, sc, "SELECT ID,HOST,COMMAND,"+ServerName+" FROM information_schema.PROCESSLIST WHERE ID=CONNECTION_ID() OR ID IN ("+strings.Join(ids, ",")+")",
		func(rows *sql.Rows) (p process, err error) {
			var host, command sql.NullString
			err = rows.Scan(&p.id, &host, &command, &p.server)
			p.host, p.command = host.String, command.String
			return p, err
		})
	if err == nil && len(found) == 0 {
		err = errors.New("the server does not show its sessions")
	}
	if err != nil {
		q.conn.close()
		return nil, err
	}
	q.took = time.Since(start)
	for _, p := range found {
		q.at[p.id], q.server = p, p.server
	}
	return q, nil
}

// dead reports whether the connection of a statement is.
func (q *answer) dead(e *watch) bool {
	if q.server != e.c.Server {
		return e.asked
	}
	p, there := q.at[e.c.ID]
	return !there || strings.EqualFold(p.command, "Sleep")
}

// end ends the session of a dead connection, if it is certain which that is: number
// and port together name one. Behind a proxy the ports differ.
func (q *answer) end(ctx context.Context, e *watch) {
	p, there := q.at[e.c.ID]
	if !there || q.server != e.c.Server || e.c.net == nil {
		return
	}
	if own, ok := e.c.net.LocalAddr().(*net.TCPAddr); ok && strings.HasSuffix(p.host, fmt.Sprintf(":%d", own.Port)) {
		q.conn.db.Statements.Add(1)
		_, _ = q.conn.sc.ExecContext(ctx, fmt.Sprintf("KILL CONNECTION %d", e.c.ID))
	}
}

// distrust makes all idle connections that were not heard of since then close
// before they are used: what ended one silently has ended its neighbours too.
func (d *DB) distrust(since time.Time) {
	for old := d.doubt.Load(); old == nil || old.Before(since); old = d.doubt.Load() {
		if d.doubt.CompareAndSwap(old, &since) {
			d.Control.mu.Lock()
			d.Control.warmFrom = time.Time{} // it is opened before what it may have to KILL
			d.Control.mu.Unlock()
			return
		}
	}
}

// doubted reports whether the connection may be dead like another that was.
func (c *Conn) doubted() bool {
	since := c.db.doubt.Load()
	return since != nil && c.Heard.Before(*since)
}
