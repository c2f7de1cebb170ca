package conn

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"fmt"
	"net"
	"slices"
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
	ID     uint64    // CONNECTION_ID()
	Server string    // which server the connection reached
	inRun  Run       // of that server; zero: not asked for yet
	Opened time.Time // before anything was sent on it
	Ready  time.Time // after the server had answered
	Heard  time.Time // when the last statement was sent that the server answered; see kill
	used   time.Time // when it was last put back
	uses   int       // how often it was put back

	hadUsers bool          // others had used it before
	Trip     *Trip         // to that server
	Broken   bool          // to be closed
	lost     bool          // a statement had no answer: see Lose
	Locks    bool          // its transaction has something locked, which a conflict undoes
	Queued   time.Duration // how long the server may keep a statement waiting for its turn
	net      net.Conn      // below; nil: not known

	Silence    time.Duration // after it the server ends the connection (wait_timeout); 0: not set
	Repeatable bool          // its transactions are at REPEATABLE READ
	Used       bool          // a function of the caller's had it; see unchanged.go

	place, temporary string // as the look read them

	// literals: no statement is sent prepared; see prepared.go.
	literals bool
	Packet   int                      // max_allowed_packet of the session; see packet.go
	kept     map[string]*preparedForm // by the text with ?
	marks    *Text                    // the one that is being sent
	forgot   int
}

// Rollback ends a transaction that a new connection has open, whatever completion_type is there. (SET autocommit=1 would commit it.)
const Rollback = "ROLLBACK AND NO CHAIN NO RELEASE"

// Commit is COMMIT, whatever completion_type is.
const Commit = "COMMIT AND NO CHAIN NO RELEASE"

// ServerName tells which server answers. MariaDB has a server_id for each session, too.
const ServerName = "CONCAT_WS(':', @@hostname, @@port, @@GLOBAL.server_id)"

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

// prepare brings a connection to the settings of its pool, and looks at it. The server is to end it after so much silence;
// 0: whenever it likes.
func (d *DB) prepare(ctx context.Context, c *Conn, silence time.Duration) (err error) {
	if c.net, err = netConnOf(c.sc); err != nil {
		return err
	}
	of := settingsOf(c.pool.Kind, silence)
	sent := time.Now()
	refused, err := d.bring(ctx, c.sc, of)
	if err != nil {
		return err
	}
	shortest := time.Since(sent)
	c.Silence = silence
	of = d.without(of)
	seen, err := d.look(ctx, c, of)
	if Number(err) == ErNoVariable && slices.ContainsFunc(of, func(s setting) bool { return s.rare }) {
		d.lacks.Store(true)
		of = d.without(of)
		seen, err = d.look(ctx, c, of)
	}
	switch {
	case Number(err) == erPacket:
		return fmt.Errorf("%w: max_allowed_packet of the server is too small: a statement on one long key needs %d, and a batch is best with 1048576 or more: %w", driver.ErrNotSupported, leastPacket, err)
	case err != nil:
		return err
	case c.Packet < leastPacket:
		return fmt.Errorf("%w: max_allowed_packet of the server is %d: a statement on one long key needs %d, and a batch is best with 1048576 or more", driver.ErrNotSupported, c.Packet, leastPacket)
	}
	if w := wrongIn(of, seen.settings); w != "" {
		return wrong(w, refused)
	}
	c.Ready = time.Now()
	if err := d.inHome(placeOf(seen.place), c.hadUsers, seen.foldsCase); err != nil {
		return err
	}
	c.place, c.temporary = seen.place, seen.temporary.String
	if !d.own && seen.temporary.String != "0" {
		if err := d.dropTemporary(ctx, c); err != nil {
			return err
		}
	}
	d.leaveOut(refused)
	d.reached(c)
	c.Trip = d.tripTo(c.Server)
	c.Trip.answered(c.Ready, min(shortest, c.Ready.Sub(c.Heard)))
	d.Usual.CompareAndSwap(0, int64(min(c.Trip.shortest(), FarTrip))) // above it the bound of a statement is not asked for
	return d.mayUse(ctx, c)
}

// seen is what the look at a session tells, beside what is noted in the Conn.
type seen struct {
	settings  string
	place     string // see placeText
	foldsCase bool
	temporary sql.NullString // 0: no temporary table was made in the session
}

// look is the one look at a new connection. Out of a program's pool it may have locks by name, which it never gives back.
func (d *DB) look(ctx context.Context, c *Conn, of []setting) (s seen, err error) {
	var sameBytes bool
	var run Run
	into := []any{&c.ID, &c.Server, &sameBytes, &c.Packet, &s.place, &s.foldsCase, &s.settings}
	text := "SELECT CONNECTION_ID(), " + ServerName + ", @@character_set_client=@@character_set_connection, @@max_allowed_packet, " +
		placeText + ", @@lower_case_table_names>0, " + lookText(of)
	if c.pool.Kind == Session {
		text += ", " + RunColumns
		into = append(into, &run.Server, &run.Started)
	}
	if !d.own || c.pool.Kind == Transaction {
		text += ", " + temporaryText + ", RELEASE_ALL_LOCKS()"
		into = append(into, &s.temporary, new(sql.NullInt64))
	}
	c.Heard = time.Now()
	d.Statements.Add(1)
	if err = c.sc.QueryRowContext(ctx, text).Scan(into...); err != nil {
		return s, err
	}
	c.literals = !sameBytes // the server would convert the strings
	if run.Server != "" {
		c.LeadsTo(run)
	}
	return s, nil
}

// close ends the connection for good.
func (c *Conn) close() { discard(c.sc) }

// Alive reports whether a connection that was idle can still be used.
func (c *Conn) Alive(ctx context.Context) bool {
	if c.doubted() {
		return false
	}
	idle := time.Since(c.used)
	if idle < freshFor {
		return true
	}
	if c.Closed(ctx) {
		return false
	}
	if idle <= QuietFor {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, pingWait)
	defer cancel()
	return c.sc.PingContext(ctx) == nil
}

// Closed reports whether the server has closed the connection (KILL, wait_timeout, a restart), as far as is known here: a look at
// the socket, which costs no trip.
func (c *Conn) Closed(ctx context.Context) bool {
	return c.sc.Raw(func(dc any) error {
		if r, ok := dc.(sqldriver.SessionResetter); ok && r.ResetSession(ctx) != nil {
			return sqldriver.ErrBadConn
		}
		return nil
	}) != nil
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

// Distant reports whether the server is so far away that no statement is ended by KILL; see roundtrip.go.
func (c *Conn) Distant() bool { return c.Trip.distant() }

// ShortestAnswer is the shortest answer of late, from the connection's server.
func (c *Conn) ShortestAnswer() time.Duration { return c.Trip.shortest() }
