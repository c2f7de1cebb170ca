package mysqllock

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/rowlock/rowlock/driver"
)

// conn is a connection that a Store has checked out of the pool of database/sql, prepared
// once and keeps. One goroutine uses it at a time.
//
// Its settings are ours, so it never goes back to the pool alive: the pool may be
// the caller's.
type conn struct {
	db     *db
	pool   *pool // to which it goes back; nil: to none
	sc     *sql.Conn
	id     uint64    // CONNECTION_ID()
	server string    // which server the connection reached
	opened time.Time // before anything was sent on it
	ready  time.Time // after the server had answered
	heard  time.Time // when the last statement was sent that the server answered; see kill
	used   time.Time // when it was last put back
	trip   *trip     // to that server
	broken bool      // to be closed
	net    net.Conn  // below; nil: not known

	silence    time.Duration // after it the server ends the connection (wait_timeout); 0: not set
	repeatable bool          // its transactions are at REPEATABLE READ

	// literals: no statement is sent prepared; see prepared.go.
	literals bool
	packet   int              // max_allowed_packet of the session; see packet.go
	kept     map[string]*kept // by the text with ?
	marks    *text            // the one that is being sent
	forgot   int
}

// singleSettings are what a connection for single statements is brought to. A connection
// of the program's pool may have an open transaction (SET autocommit=1 would commit it)
// and any session setting. The lock waits are a second bound, for where KILL is refused: a
// statement that waits for another transaction (or for a change of the table's definition)
// ends after a second with 1205, undone.
var singleSettings = []string{
	rollback,
	"SET SESSION autocommit=1, innodb_lock_wait_timeout=1, lock_wait_timeout=1, sql_safe_updates=0, sql_select_limit=18446744073709551615" + repeatable,
}

const rollback = "ROLLBACK"

// serverName tells which server answers.
const serverName = "CONCAT_WS(':', @@hostname, @@port, @@server_id)"

const (
	// lockWait is the session's innodb_lock_wait_timeout.
	lockWait = time.Second

	// freshFor is how long a connection is taken to be alive after its last answer.
	freshFor = time.Millisecond

	// quietFor is how long a connection may rest before it is asked for a sign of
	// life: a firewall that forgot it would let the next statement hang.
	quietFor = 30 * time.Second
	pingWait = 500 * time.Millisecond

	// repeats bounds how often one statement is sent again after the server proved
	// that it changed nothing.
	repeats = 8
)

// open makes a connection for one of our pools, out of that of database/sql.
func (d *db) open(ctx context.Context, p *pool, silence time.Duration) (*conn, error) {
	c := &conn{db: d, pool: p, opened: time.Now()}
	settings, autocommit, wait := p.settings, false, openWait
	if settings == nil {
		settings, autocommit = singleSettings, true
	}
	if p.patient {
		wait = 0
	}
	var err error
	if c.sc, err = d.connect(ctx, wait); err != nil {
		return nil, notSent("connect", err)
	}
	if c.net, err = netConnOf(c.sc); err != nil {
		c.close()
		return nil, notSent("connect", err)
	}
	shortest := time.Duration(math.MaxInt64)
	for _, text := range settings {
		if d.own && text == rollback {
			continue // it is new
		}
		sent := time.Now()
		d.statements.Add(1)
		_, err := c.sc.ExecContext(ctx, text)
		shortest = min(shortest, time.Since(sent))
		if err != nil {
			c.close()
			return nil, notSent("prepare a connection", err)
		}
	}
	var commits, sameBytes bool
	c.heard = time.Now()
	d.statements.Add(1)
	row := c.sc.QueryRowContext(ctx, "SELECT CONNECTION_ID(), "+serverName+", @@autocommit, @@character_set_client=@@character_set_connection, @@max_allowed_packet")
	if err := row.Scan(&c.id, &c.server, &commits, &sameBytes, &c.packet); err != nil {
		c.close()
		return nil, notSent("prepare a connection", err)
	}
	if commits != autocommit {
		c.close()
		return nil, notSent("prepare a connection", fmt.Errorf("%w: the server, or a proxy before it, does not let autocommit be set", driver.ErrNotSupported))
	}
	if c.packet < leastPacket {
		c.close()
		return nil, notSent("prepare a connection", fmt.Errorf("%w: max_allowed_packet of the server is %d: a statement on one long key needs %d, and a batch is best with 1048576 or more",
			driver.ErrNotSupported, c.packet, leastPacket))
	}
	c.ready = time.Now()
	c.trip = d.tripTo(c.server)
	c.trip.answered(c.ready, min(shortest, c.ready.Sub(c.heard)))
	d.usual.CompareAndSwap(0, int64(min(c.trip.shortest(), farTrip))) // above it the bound of a statement is not asked for
	c.literals = !sameBytes                                           // the server would convert the strings
	if p.prepare != nil {
		if err := p.prepare(ctx, c, silence); err != nil {
			c.close()
			return nil, notSent("prepare a connection", err)
		}
	}
	return c, nil
}

// close ends the connection for good.
func (c *conn) close() { discard(c.sc) }

// alive reports whether a connection that rested can still be used. The look at the
// socket costs no trip; it sees a server that closed the connection (wait_timeout,
// restart).
func (c *conn) alive(ctx context.Context) bool {
	if c.doubted() {
		return false
	}
	rested := time.Since(c.used)
	if rested < freshFor {
		return true
	}
	err := c.sc.Raw(func(dc any) error {
		if r, ok := dc.(sqldriver.SessionResetter); ok && r.ResetSession(ctx) != nil {
			return sqldriver.ErrBadConn
		}
		return nil
	})
	if err == nil && rested > quietFor {
		ctx, cancel := context.WithTimeout(ctx, pingWait)
		err = c.sc.PingContext(ctx)
		cancel()
	}
	return err == nil
}

// wholeSeconds is a wait_timeout as long as d; its largest value is a year.
func wholeSeconds(d time.Duration) time.Duration {
	return min(max((d+time.Second-1).Truncate(time.Second), time.Second), 365*24*time.Hour)
}

// endsAfter makes the server end the connection when it is silent for that long, in whole
// seconds; 0: for whatever is set.
func (c *conn) endsAfter(ctx context.Context, silence time.Duration) error {
	if silence == 0 {
		return nil
	}
	if silence = wholeSeconds(silence); silence == c.silence {
		return nil
	}
	_, err := c.exec(ctx, 0, fmt.Sprintf("SET SESSION wait_timeout=%d", silence/time.Second))
	if err == nil {
		c.silence = silence
	}
	return err
}

// exec sends one statement and waits for the answer. With a bound above zero the
// statement is ended when it is unanswered for that long; the error then matches
// errBlocked, and nothing was changed. Other errors come back raw.
func (c *conn) exec(ctx context.Context, bound time.Duration, text string) (res sql.Result, err error) {
	if err := c.fits(text); err != nil {
		return nil, err
	}
	err = c.run(ctx, bound, func(ctx context.Context) error {
		res, err = c.sc.ExecContext(ctx, text)
		return err
	})
	return res, c.refusedSize(text, err)
}

// query is exec for a statement that returns rows.
func query[T any](ctx context.Context, c *conn, bound time.Duration, text string, scan func(*sql.Rows) (T, error)) (found []T, err error) {
	if err := c.fits(text); err != nil {
		return nil, err
	}
	err = c.run(ctx, bound, func(ctx context.Context) error {
		found, err = collect(ctx, c.sc, text, scan)
		return err
	})
	return found, c.refusedSize(text, err)
}

func collect[T any](ctx context.Context, on Tx, text string, scan func(*sql.Rows) (T, error)) (found []T, err error) {
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

// scanOne reads the only column of a row.
func scanOne[T any](rows *sql.Rows) (value T, err error) {
	err = rows.Scan(&value)
	return value, err
}

// run sends a statement, again where the server proved that it changed nothing
// and the next try may fare better: a deadlock, or a KILL QUERY that was not ours
// or came too late for the statement before.
func (c *conn) run(ctx context.Context, bound time.Duration, send func(context.Context) error) error {
	for try := 1; ; try++ {
		ended, err := c.once(ctx, bound, send)
		n := number(err)
		switch {
		case err == nil:
			return nil
		case n == erLockWait, (n == erKilled || n == erDeadlock) && ended: // Galera answers a KILL QUERY by 1213
			return fmt.Errorf("%w: %w", errBlocked, err)
		case n == erDeadlock, n == erSnapshot, n == erKilled:
			if try < repeats && pause(ctx, time.Millisecond<<min(try, 4)) {
				continue
			}
			return err
		case errors.Is(err, mysql.ErrPktTooLarge): // nothing was written
		case n == 0, n == erIdle:
			c.lose(err)
		case elsewhere[n]:
			c.broken = true
		}
		return err
	}
}

// once sends a statement; ended tells that we ended it by KILL QUERY.
func (c *conn) once(ctx context.Context, bound time.Duration, send func(context.Context) error) (ended bool, err error) {
	c.db.statements.Add(1)
	if err := ctx.Err(); err != nil {
		return false, err
	}
	start := time.Now()
	kill := bound
	if c.trip.distant() {
		kill = 0
	}
	sending, patience := ctx, time.Duration(0) // without end: see silence.go
	var cut context.CancelFunc
	if !c.pool.holds {
		patience = firstPatience(ctx, start)
		sending, cut = context.WithCancel(ctx)
		defer cut()
	}
	e := c.db.watchdog.watch(c, start, kill, patience, cut)
	err = send(sending)
	now := time.Now()
	ended = c.db.watchdog.stop(ctx, e)
	if ended && !c.broken && e.other && number(err) == erLockWait {
		c.db.cannotKill.Store(true) // it waited all the time, in another session than its number says
	}
	if e.silent && err != nil && number(err) == 0 {
		return ended, errSilent
	}
	if err == nil && bound > 0 {
		c.db.noteAnswer(now.Sub(start))
	}
	if n := number(err); err == nil || n != 0 && n != erIdle {
		c.heard = start
		c.trip.answered(now, now.Sub(start))
	}
	return ended, err
}

// lose marks a connection of which we do not know what it does now. A statement
// that may still run on the server (and wait, and be granted something) is ended.
func (c *conn) lose(err error) {
	c.broken = true
	if !errors.Is(err, sqldriver.ErrBadConn) && !errors.Is(err, errSilent) && number(err) == 0 {
		c.db.endSession(c)
	}
}

// pause waits for a random while of at most d; false: the context ended.
func pause(ctx context.Context, d time.Duration) bool { return sleep(ctx, d/2+rand.N(d/2+1)) }

// sleep waits for d; false: the context ended.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
