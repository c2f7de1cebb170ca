package conn

import (
	"context"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rowlock/rowlock/driver"
)

// unfit is a session that is not as the statements need it, and cannot be made so.
type unfit struct {
	why   string
	cause error // what the server said; nil: nothing
}

func (u *unfit) Error() string {
	if u.cause != nil {
		return u.why + ": " + u.cause.Error()
	}
	return u.why
}

func (u *unfit) Unwrap() error { return u.cause }

// ofSession are errors by which a statement meets something that a program has left in the session, and that no SELECT
// sees: tables that are locked by LOCK TABLES (1099, 1100), and temporary ones (1137). Nothing was done, and another
// connection may serve.
var ofSession = map[uint16]bool{1099: true, 1100: true, 1137: true}

// mostUnfit bounds how many unfit connections of a program's pool are thrown out in one go.
const mostUnfit = 100

// open makes a connection for one of our pools, out of that of database/sql. What is unfit in a pool of the program's is
// ended, and the next one tried. When two that were newly dialled are unfit alike, all are.
func (d *DB) open(ctx context.Context, p *Pool, silence time.Duration) (*Conn, error) {
	var first *unfit
	for try, dialled := 1, 0; ; try++ {
		c, fresh, err := d.openOne(ctx, p, silence)
		var u *unfit
		if !errors.As(err, &u) {
			return c, err
		}
		if first == nil {
			first = u
		}
		if fresh {
			dialled++
		}
		switch alike := u.why == first.why; {
		case d.own:
			return nil, NotSent("prepare a connection", fmt.Errorf("%w: %w: see the DSN, and init_connect of the server", driver.ErrNotSupported, u))
		case dialled > 1 && alike:
			return nil, NotSent("prepare a connection", fmt.Errorf("%w: %w, and so in each connection of the pool that was tried", driver.ErrNotSupported, u))
		case dialled > 1, try == mostUnfit, ctx.Err() != nil:
			return nil, NotSent("prepare a connection", u)
		}
	}
}

// clean takes a connection out of the pool, and ends the transaction that it may have open if the pool is the program's.
// To one that was idle there that is the question whether it lives, too. fresh: none was idle.
func (d *DB) clean(ctx context.Context, p *Pool) (sc *sql.Conn, fresh bool, err error) {
	wait := OpenWait
	if p.Patient {
		wait = 0
	}
	var asked *sql.Conn
	var said error
	rollBack := func(ctx context.Context, sc *sql.Conn) bool {
		d.Statements.Add(1)
		asked = sc
		_, said = sc.ExecContext(ctx, Rollback)
		return said == nil || Number(said) != 0
	}
	if sc, fresh, err = d.connect(ctx, wait, rollBack); err != nil {
		return nil, false, NotSent("connect", err)
	}
	if asked != sc && !d.own {
		rollBack(ctx, sc)
	}
	if asked == sc && said != nil {
		discard(sc)
		if Number(said) != 0 {
			return nil, fresh, &unfit{"the session has a transaction that ROLLBACK does not end (XA)", said}
		}
		return nil, fresh, NotSent("prepare a connection", said)
	}
	return sc, fresh, nil
}

// bring sets the settings of a kind. What the server refuses to set is left out from then on if it is right
// nonetheless, which the look tells: MariaDB's secure_timestamp refuses timestamp, and a proxy refuses what it likes.
func (d *DB) bring(ctx context.Context, sc *sql.Conn, of []setting) (refused map[string]error, err error) {
	known, _ := d.refused.Load().(map[string]bool)
	can := canSet(of, known)
	d.Statements.Add(1)
	_, err = sc.ExecContext(ctx, setText(can))
	if n := Number(err); n == 0 || n == erPacket || RefusedNow[n] {
		return nil, err
	}
	refused = make(map[string]error)
	for _, s := range can {
		d.Statements.Add(1)
		if _, err := sc.ExecContext(ctx, setOne(s)); Number(err) != 0 {
			refused[s.name] = err
		} else if err != nil {
			return nil, err
		}
	}
	return refused, nil
}

// leaveOut notes what is not to be set any more.
func (d *DB) leaveOut(refused map[string]error) {
	if len(refused) == 0 {
		return
	}
	old, _ := d.refused.Load().(map[string]bool)
	all := make(map[string]bool)
	for name := range old {
		all[name] = true
	}
	for name := range refused {
		all[name] = true
	}
	d.refused.Store(all)
}

// wrong is the error for what the look has found.
func wrong(found string, refused map[string]error) error {
	u := &unfit{why: "the session's setting " + found + ", and the server, or a proxy before it, does not let it be set as the statements need it"}
	for name, err := range refused {
		if strings.Contains(found, name+" is ") { // or "is not"
			u.cause = err
		}
	}
	return u
}

// place is where a session is.
type place struct {
	schema string // the default database; empty: none
	role   string // the active roles; empty: none
}

// placeText is a session's place in hex of UTF-8, whatever its character set. An older server has no roles.
const (
	placeText = "CONCAT(IFNULL(HEX(CONVERT(DATABASE() USING utf8mb4)),''),'@' /*!80000 ," + roleText + " */ /*M!100600 ," + roleText + " */)"
	roleText  = "IFNULL(HEX(CONVERT(CURRENT_ROLE() USING utf8mb4)),'')"
)

func placeOf(text string) place {
	schema, role, _ := strings.Cut(text, "@")
	return place{unhex(schema), unhex(role)}
}

func unhex(text string) string {
	b, _ := hex.DecodeString(text)
	return string(b)
}

// inHome is nil if the session is in the database of the lock tables: that of the DSN, or the default one of the
// program's pool. In a pool it must have the roles of a new connection, too: others may lack the rights to the tables.
// foldsCase: the server takes names that differ in case for one.
func (d *DB) inHome(ctx context.Context, is place, fresh, foldsCase bool) error {
	home := d.home.Load()
	if home == nil {
		found := is
		if !fresh {
			found = d.homeOfPool(ctx, is)
		}
		if found.schema == "" {
			return nil // the server will say so
		}
		d.home.CompareAndSwap(nil, &found)
		home = d.home.Load()
	}
	switch {
	case is.schema != home.schema && !(foldsCase && strings.EqualFold(is.schema, home.schema)):
		return &unfit{why: fmt.Sprintf("the session's default database is %q, not %q, in which the lock tables are", is.schema, home.schema)}
	case fresh && is.role != home.role:
		d.home.Store(&place{home.schema, is.role}) // the roles of new sessions have been changed
	case !d.own && is.role != home.role:
		return &unfit{why: fmt.Sprintf("the session's roles are %q, not %q as in a new one (SET ROLE)", is.role, home.role)}
	}
	return nil
}

// mostAsked bounds how many connections are taken out of a program's pool at once to learn its home.
const mostAsked = 32

// homeOfPool is the default database of the program's pool, and the roles of its sessions. One that was idle there may
// have been led elsewhere by USE, or SET ROLE, so a newly dialled one is asked: all that are idle are taken out for as
// long. Where none can be dialled, most of them are right.
func (d *DB) homeOfPool(ctx context.Context, is place) place {
	d.homeSem <- struct{}{}
	defer func() { <-d.homeSem }()
	if home := d.home.Load(); home != nil {
		return *home
	}
	votes := map[place]int{is: 1}
	most := is
	for range mostAsked {
		idle := d.SQL.Stats().Idle > 0
		waiting, cancel := context.WithTimeout(ctx, OpenWait)
		sc, err := d.SQL.Conn(waiting)
		if err != nil {
			cancel()
			break
		}
		defer sc.Close()
		var text string
		d.Statements.Add(1)
		err = sc.QueryRowContext(waiting, "SELECT "+placeText).Scan(&text)
		cancel()
		if err != nil {
			continue
		}
		seen := placeOf(text)
		if !idle {
			return seen
		}
		if votes[seen]++; votes[seen] > votes[most] {
			most = seen
		}
	}
	return most
}

// temporaryText tells whether a temporary table was ever made in the session: on MySQL not exactly, where it counts all
// definitions of tables that the session was the first to read.
const temporaryText = "(/*!80000 SELECT VARIABLE_VALUE FROM performance_schema.session_status WHERE VARIABLE_NAME='Opened_table_definitions' */ /*M!100600 " +
	madeTemporary + " */)"

const madeTemporary = "SELECT VARIABLE_VALUE FROM information_schema.SESSION_STATUS WHERE VARIABLE_NAME='Com_create_temporary_table'"

// dropTemporary drops temporary tables with the names of ours, which would be read and written in their place. It needs no
// privilege, and is not logged if there is none.
func (d *DB) dropTemporary(ctx context.Context, c *Conn) error {
	d.Statements.Add(1)
	_, err := c.sc.ExecContext(ctx, "DROP TEMPORARY TABLE IF EXISTS "+strings.Join(d.tables, ","))
	if n := Number(err); n != 0 && !RefusedNow[n] {
		return &unfit{"the session may have temporary tables with the names of the lock tables", err}
	}
	return err
}

// without leaves out what the server lacks.
func (d *DB) without(of []setting) []setting {
	if !d.lacks.Load() {
		return of
	}
	return slices.DeleteFunc(slices.Clone(of), func(s setting) bool { return s.rare })
}
