package conn

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"io"
	"time"
)

// A quiet lease costs a statement on one key to take and one to release, and of
// what such a statement costs beyond its commit the most is to be understood. So a
// connection that sends one again keeps it prepared on the server: that use costs
// one more trip, those after it none. The same statement with literals is what is
// sent for several keys, at the first use (many a program takes one lock and
// ends), and where something lets no statement be prepared: max_prepared_stmt_count,
// a proxy, a driver around the driver.
//
// Values then travel beside the statement, as strings of the session's character
// set. Two settings change them on their way; there literals are sent too: see
// conn.literals and text.empty.

// preparedForm is a statement on one key that a connection has sent.
type preparedForm struct {
	uses int
	stmt PreparedStatement // nil: not prepared
}

// PreparedStatement is what the driver's can do.
type PreparedStatement interface {
	sqldriver.Stmt
	sqldriver.StmtExecContext
	sqldriver.StmtQueryContext
}

const (
	// KeepAfter is how often a connection sends a statement with literals before it
	// has it prepared.
	KeepAfter = 1

	// MayForget is how often a connection may forget what it prepared. More than
	// that, and something in between does not keep it on one session.
	MayForget = 3
)

// Forgotten are the errors by which a server or a proxy says that it does not have
// a prepared statement, or not that one. Nothing was done.
var Forgotten = map[uint16]bool{
	1210: true, // the arguments do not fit: it is another one
	1243: true, // no such statement
	1615: true, // it cannot be prepared anew after a change of the table
}

var errNotPrepared = errors.New("this driver does not prepare statements")

// ExecOne is exec for a statement on one key.
func (c *Conn) ExecOne(ctx context.Context, bound time.Duration, s Statement) (res sql.Result, err error) {
	err = c.run(ctx, bound, func(ctx context.Context) error {
		return c.one(ctx, s, func(p PreparedStatement, values []sqldriver.NamedValue) error {
			res, err = p.ExecContext(ctx, values)
			return err
		}, func(text string) error {
			res, err = c.sc.ExecContext(ctx, text)
			return err
		})
	})
	return res, err
}

// QueryOne is query for a statement on one key that reads a single number.
func (c *Conn) QueryOne(ctx context.Context, s Statement) (found []int64, err error) {
	err = c.run(ctx, 0, func(ctx context.Context) error {
		return c.one(ctx, s, func(p PreparedStatement, values []sqldriver.NamedValue) error {
			rows, err := p.QueryContext(ctx, values)
			if err != nil {
				return err
			}
			found, err = ScanNumbers(rows)
			return errors.Join(err, rows.Close())
		}, func(text string) error {
			found, err = Collect(ctx, c.sc, text, ScanOne[int64])
			return err
		})
	})
	return found, err
}

// Prepared are the statements that the connection keeps prepared.
func (c *Conn) Prepared() (texts []string) {
	for text, k := range c.kept {
		if k.stmt != nil {
			texts = append(texts, text)
		}
	}
	return texts
}

// one sends a statement on one key in the form that fits.
func (c *Conn) one(ctx context.Context, s Statement, prepared func(PreparedStatement, []sqldriver.NamedValue) error, literal func(string) error) error {
	k, err := c.find(ctx, s)
	if err != nil {
		return err
	}
	if k != nil {
		err := c.sc.Raw(func(any) error { return prepared(k.stmt, c.marks.Values) })
		if !Forgotten[Number(err)] {
			return err
		}
		*k = preparedForm{}
		if c.forgot++; c.forgot == MayForget {
			c.literals = true
		}
	}
	return literal(s.Literal())
}

// find gives the prepared form of a statement, with its values in c.marks; nil: it
// is to be sent with literals.
func (c *Conn) find(ctx context.Context, s Statement) (*preparedForm, error) {
	if c.literals {
		return nil, nil
	}
	if c.marks == nil {
		c.marks, c.kept = NewMarks(), make(map[string]*preparedForm)
	}
	c.marks.reset()
	s(c.marks)
	if c.marks.Empty {
		return nil, nil
	}
	k := c.kept[string(c.marks.b)]
	if k == nil {
		k = new(preparedForm)
		c.kept[c.marks.String()] = k
	}
	if k.uses++; k.uses <= c.db.KeepAfter {
		return nil, nil
	}
	if k.stmt == nil {
		err := c.prepare(ctx, k)
		switch n := Number(err); {
		case err == nil:
		case errors.Is(err, errNotPrepared), n != 0 && !RefusedNow[n]:
			// What is wrong with the statement itself its literal form will tell.
			c.literals = true
			return nil, nil
		default:
			return nil, err
		}
	}
	return k, nil
}

// prepare prepares the statement in c.marks.
func (c *Conn) prepare(ctx context.Context, k *preparedForm) error {
	c.db.Statements.Add(1)
	return c.sc.Raw(func(dc any) error {
		p, ok := dc.(sqldriver.ConnPrepareContext)
		if !ok {
			return errNotPrepared
		}
		stmt, err := p.PrepareContext(ctx, c.marks.String())
		if err != nil {
			return err
		}
		if k.stmt, ok = stmt.(PreparedStatement); !ok {
			return errors.Join(errNotPrepared, stmt.Close())
		}
		return nil
	})
}

var errNoNumber = errors.New("a number was expected, the server gave something else, or one that is out of range")

// ScanNumbers reads rows of one number.
func ScanNumbers(rows sqldriver.Rows) (found []int64, err error) {
	var row [1]sqldriver.Value
	for {
		if err := rows.Next(row[:]); err == io.EOF {
			return found, nil
		} else if err != nil {
			return nil, err
		}
		var c Int // of []byte too: MySQL may take the type for DECIMAL
		if _ = c.Scan(row[0]); c.Off {
			return nil, fmt.Errorf("%w: a %T", errNoNumber, row[0])
		}
		found = append(found, c.N)
	}
}
