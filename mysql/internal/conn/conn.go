package conn

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"fmt"
	"math"
	"net"
	"time"

	"github.com/rowlock/rowlock/driver"
)

// Conn is a connection that a Store has checked out of the pool of database/sql, prepared
// once and keeps. One goroutine uses it at a time.
//
// Its settings are ours, so it never goes back to the pool alive: the pool may be
// the caller's.
type Conn struct {
	db     *DB
	pool   *Pool // to which it goes back; nil: to none
	sc     *sql.Conn
	ID     uint64        // CONNECTION_ID()
	Server string        // which server the connection reached
	inRun  Run           // of that server; zero: not asked for yet
	opened time.Time     // before anything was sent on it
	ready  time.Time     // after the server had answered
	Heard  time.Time     // when the last statement was sent that the server answered; see kill
	used   time.Time     // when it was last put back
	trip   *trip         // to that server
	Broken bool          // to be closed
	lost   bool          // a statement had no answer: see Lose
	Locks  bool          // its transaction has something locked, which a conflict undoes
	Queued time.Duration // how long the server may keep a statement waiting for its turn
	net    net.Conn      // below; nil: not known

	Silence    time.Duration // after it the server ends the connection (wait_timeout); 0: not set
	Repeatable bool          // its transactions are at REPEATABLE READ

	// literals: no statement is sent prepared; see prepared.go.
	literals bool
	packet   int                      // max_allowed_packet of the session; see packet.go
	kept     map[string]*preparedForm // by the text with ?
	marks    *Text                    // the one that is being sent
	forgot   int
}

// singleSettings are what a connection for single statements is brought to. A connection
// of the program's pool may have an open transaction (SET autocommit=1 would commit it)
// and any session setting. The lock waits are a second bound, for where KILL is refused: a
// statement that waits for another transaction (or for a change of the table's definition)
// ends after a second with 1205, undone.
var singleSettings = []string{
	Rollback,
	"SET SESSION autocommit=1, innodb_lock_wait_timeout=1, lock_wait_timeout=1, sql_safe_updates=0, sql_select_limit=18446744073709551615" + Repeatable,
}

// Rollback ends a transaction that a connection of a program's pool may have open.
const Rollback = "ROLLBACK"

// ServerName tells which server answers.
const ServerName = "CONCAT_WS(':', @@hostname, @@port, @@server_id)"

const (
	// LockWait is the session's innodb_lock_wait_timeout.
	LockWait = time.Second

	// freshFor is how long a connection is taken to be alive after its last answer.
	freshFor = time.Millisecond

	// QuietFor is how long a connection may be idle before it is asked for a sign of
	// life: a firewall that forgot it would let the next statement hang.
	QuietFor = 30 * time.Second
	pingWait = 500 * time.Millisecond

	// repeats bounds how often one statement is sent again that a KILL QUERY of somebody else ended.
	repeats = 8
)

// open makes a connection for one of our pools, out of that of database/sql.
func (d *DB) open(ctx context.Context, p *Pool, silence time.Duration) (*Conn, error) {
	c := &Conn{db: d, pool: p, opened: time.Now()}
	settings, autocommit, wait := p.Settings, false, OpenWait
	if settings == nil {
		settings, autocommit = singleSettings, true
	}
	if p.Patient {
		wait = 0
	}
	var err error
	if c.sc, err = d.connect(ctx, wait); err != nil {
		return nil, NotSent("connect", err)
	}
	if c.net, err = netConnOf(c.sc); err != nil {
		c.close()
		return nil, NotSent("connect", err)
	}
	shortest := time.Duration(math.MaxInt64)
	for _, text := range settings {
		if d.own && text == Rollback {
			continue // it is new
		}
		sent := time.Now()
		d.Statements.Add(1)
		_, err := c.sc.ExecContext(ctx, text)
		shortest = min(shortest, time.Since(sent))
		if err != nil {
			c.close()
			return nil, NotSent("prepare a connection", err)
		}
	}
	var commits, sameBytes bool
	c.Heard = time.Now()
	d.Statements.Add(1)
	row := c.sc.QueryRowContext(ctx, "SELECT CONNECTION_ID(), "+ServerName+", @@autocommit, @@character_set_client=@@character_set_connection, @@max_allowed_packet")
	if err := row.Scan(&c.ID, &c.Server, &commits, &sameBytes, &c.packet); err != nil {
		c.close()
		return nil, NotSent("prepare a connection", err)
	}
	if commits != autocommit {
		c.close()
		return nil, NotSent("prepare a connection", fmt.Errorf("%w: the server, or a proxy before it, does not let autocommit be set", driver.ErrNotSupported))
	}
	if c.packet < leastPacket {
		c.close()
		return nil, NotSent("prepare a connection", fmt.Errorf("%w: max_allowed_packet of the server is %d: a statement on one long key needs %d, and a batch is best with 1048576 or more",
			driver.ErrNotSupported, c.packet, leastPacket))
	}
	c.ready = time.Now()
	d.reached(c)
	c.trip = d.tripTo(c.Server)
	c.trip.answered(c.ready, min(shortest, c.ready.Sub(c.Heard)))
	d.usual.CompareAndSwap(0, int64(min(c.trip.shortest(), FarTrip))) // above it the bound of a statement is not asked for
	c.literals = !sameBytes                                           // the server would convert the strings
	if err := d.mayUse(ctx, c); err != nil {
		c.close()
		return nil, NotSent("connect", err)
	}
	if p.Prepare != nil {
		if err := p.Prepare(ctx, c, silence); err != nil {
			c.close()
			return nil, NotSent("prepare a connection", err)
		}
	}
	return c, nil
}

// close ends the connection for good.
func (c *Conn) close() { discard(c.sc) }

// Alive reports whether a connection that was idle can still be used. The look at the
// socket costs no trip; it sees a server that closed the connection (wait_timeout,
// restart).
func (c *Conn) Alive(ctx context.Context) bool {
	if c.doubted() {
		return false
	}
	idle := time.Since(c.used)
	if idle < freshFor {
		return true
	}
	err := c.sc.Raw(func(dc any) error {
		if r, ok := dc.(sqldriver.SessionResetter); ok && r.ResetSession(ctx) != nil {
			return sqldriver.ErrBadConn
		}
		return nil
	})
	if err == nil && idle > QuietFor {
		ctx, cancel := context.WithTimeout(ctx, pingWait)
		err = c.sc.PingContext(ctx)
		cancel()
	}
	return err == nil
}

// WholeSeconds is a wait_timeout as long as d; its largest value is a year.
func WholeSeconds(d time.Duration) time.Duration {
	return min(max((d+time.Second-1).Truncate(time.Second), time.Second), 365*24*time.Hour)
}

// EndAfter makes the server end the connection when it is silent for that long, in whole
// seconds; 0: for whatever is set.
func (c *Conn) EndAfter(ctx context.Context, silence time.Duration) error {
	if silence == 0 {
		return nil
	}
	if silence = WholeSeconds(silence); silence == c.Silence {
		return nil
	}
	_, err := c.Exec(ctx, 0, fmt.Sprintf("SET SESSION wait_timeout=%d", silence/time.Second))
	if err == nil {
		c.Silence = silence
	}
	return err
}

// Begin begins a transaction, whose context is not watched: see transaction.start.
func (c *Conn) Begin(ctx context.Context) (*sql.Tx, error) {
	c.db.Statements.Add(1)
	return c.sc.BeginTx(ctx, nil)
}

// Valid reports whether the driver still has the connection: it closes one whose context
// ends, also when the answer to the last statement has just come.
func (c *Conn) Valid() (valid bool) {
	_ = c.sc.Raw(func(dc any) error {
		v, ok := dc.(sqldriver.Validator)
		valid = !ok || v.IsValid()
		return nil
	})
	return valid
}

// Cut closes the network connection, so that a method that knows no context returns.
func (c *Conn) Cut() { _ = c.net.Close() }

// Distant reports whether the server is so far away that no statement is ended by KILL; see trip.go.
func (c *Conn) Distant() bool { return c.trip.distant() }

// ShortestAnswer is the shortest answer of late, from the connection's server.
func (c *Conn) ShortestAnswer() time.Duration { return c.trip.shortest() }
