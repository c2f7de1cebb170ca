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

// open makes a connection for one of our pools, out of that of database/sql. One that is unfit though it was dialled just now
// is as the next will be; one that others have used is closed, and the next taken.
func (d *DB) open(ctx context.Context, p *Pool, silence time.Duration) (*Conn, error) {
	var by time.Time
	if !p.Patient {
		by = time.Now().Add(OpenWait)
	}
	for {
		c := &Conn{db: d, pool: p, Opened: time.Now()}
		var err error
		if c.sc, c.hadUsers, err = d.dialled(ctx, by); err != nil {
			return nil, NotSent("connect", err)
		}
		if c.hadUsers {
			err = d.cleanUsed(ctx, c.sc)
		}
		if err == nil {
			err = d.prepare(ctx, c, p.ends(silence))
		}
		if err == nil && p.Prepare != nil {
			err = p.Prepare(ctx, c, silence)
		}
		if err == nil {
			return c, nil
		}
		c.close()
		switch {
		case c.hadUsers && ctx.Err() == nil:
			continue
		case isUnfit(err):
			err = fmt.Errorf("%w: %w: see the DSN (or whoever dials for the pool), and init_connect of the server", driver.ErrNotSupported, err)
		}
		return nil, NotSent("prepare a connection", err)
	}
}

// ofSession are errors by which a statement meets something that a program has left in the session, and that no SELECT
// sees: tables that are locked by LOCK TABLES (1099, 1100) or FLUSH TABLES (1223), and temporary ones (1137). Nothing was done, and another
// connection may serve.
var ofSession = map[uint16]bool{1099: true, 1100: true, 1137: true, 1223: true}

// bring ends what the session has open, and sets the settings of a kind, by one statement: what is for the next transaction
// only is refused where one is open, by init_connect or by whoever dials for the program. What the server refuses to set is left
// out from then on if it is right nonetheless, which the look tells: MariaDB's secure_timestamp refuses timestamp, and a proxy
// refuses what it likes.
func (d *DB) bring(ctx context.Context, sc *sql.Conn, of []setting) (refused map[string]error, err error) {
	known, _ := d.refused.Load().(map[string]bool)
	if known[nextTransaction] {
		if err := d.rollBack(ctx, sc); err != nil {
			return nil, err
		}
	}
	can := canSet(of, known)
	err = d.setOutside(ctx, sc, setText(can))
	if n := Number(err); n == 0 || n == erPacket || RefusedNow[n] || isUnfit(err) {
		return nil, err
	}
	refused = make(map[string]error)
	for _, s := range can {
		err := d.setOutside(ctx, sc, setOne(s))
		switch {
		case err == nil:
			continue
		case Number(err) == 0, isUnfit(err):
			return nil, err
		}
		if refused[s.name] = err; s.next != "" {
			if err := d.rollBack(ctx, sc); err != nil {
				return nil, err
			}
		}
	}
	return refused, nil
}

// setOutside sends a SET, and again after ROLLBACK if a transaction is open.
func (d *DB) setOutside(ctx context.Context, sc *sql.Conn, text string) error {
	for again := false; ; again = true {
		d.Statements.Add(1)
		_, err := sc.ExecContext(ctx, text)
		if Number(err) != erInTransaction || again {
			return err
		}
		if err := d.rollBack(ctx, sc); err != nil {
			return err
		}
	}
}

// rollBack ends the transaction that is open.
func (d *DB) rollBack(ctx context.Context, sc *sql.Conn) error {
	d.Statements.Add(1)
	_, err := sc.ExecContext(ctx, Rollback)
	if Number(err) != 0 {
		return &unfit{"the session has a transaction that ROLLBACK does not end (XA)", err}
	}
	return err
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

// isUnfit reports whether an error is of an unfit session.
func isUnfit(err error) bool {
	var u *unfit
	return errors.As(err, &u)
}

// placeText is where a session is: its default database and its roles, in hex of UTF-8, whatever its character set. An older server has no roles.
const (
	placeText = "CONCAT(IFNULL(HEX(CONVERT(DATABASE() USING utf8mb4)),''),'@' /*!80000 ," + roleText + " */ /*M!100600 ," + roleText + " */)"
	roleText  = "IFNULL(HEX(CONVERT(CURRENT_ROLE() USING utf8mb4)),'')"
)

// place is where a session is.
type place struct {
	schema string // the default database; empty: none
	role   string // the active roles; empty: none
}

func placeOf(text string) place {
	schema, role, _ := strings.Cut(text, "@")
	return place{unhex(schema), unhex(role)}
}

func unhex(text string) string {
	b, _ := hex.DecodeString(text)
	return string(b)
}

// inHome is nil if the session is in the database of the lock tables: that of the DSN, or the one in which the first connection
// was that the program's pool dialled. One that others have used must have the roles of a new one, too: others may lack the
// rights to the tables. foldsCase: the server takes names that differ in case for one.
func (d *DB) inHome(is place, used, foldsCase bool) error {
	home := d.home.Load()
	switch {
	case home == nil && is.schema == "":
		return nil // the server will say so
	case home == nil && !d.home.CompareAndSwap(nil, &is):
		return d.inHome(is, used, foldsCase)
	case home == nil:
	case is.schema != home.schema && !(foldsCase && strings.EqualFold(is.schema, home.schema)):
		return &unfit{why: fmt.Sprintf("the session's default database is %q, not %q, in which the lock tables are", is.schema, home.schema)}
	case used && is.role != home.role:
		return &unfit{why: fmt.Sprintf("the session's roles are %q, not %q as in a new one (SET ROLE)", is.role, home.role)}
	case is.role != home.role:
		d.home.Store(&place{home.schema, is.role})
	}
	return nil
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
