package fault

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"time"

	"github.com/rowlock/rowlock/dev/verify/timed"
)

func settingFaults() []Fault {
	return []Fault{
		Fault{Name: "connections-full", Kinds: sqlKinds, Weight: 2, Uses: []string{server},
			What: "another program takes all connections up to a lowered max_connections (1040); sessions are ended now and then, so that new ones are needed",
			Expect: "everything; acquires wait, leases may be lost, with the signal. SelectForUpdate: the exception to P2, as with " +
				"sessions-killed"}.by(connectionsFull),
		Fault{Name: "wait-timeout", Kinds: sqlKinds, Weight: 1, Uses: []string{server},
			What:   "wait_timeout is a second: the server ends sessions that rest; those from before and after are ended by KILL",
			Expect: "everything; SelectForUpdate sets its sessions' own, but the KILL is the exception to P2"}.by(waitTimeout),
	}
}

// querier is a pool or a connection.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// operator is a connection of an operator, for settings. It is opened before the
// fault, which may keep others from being opened; heal opens another if it is gone.
func (s *scene) operator(ctx context.Context) (*sql.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	return s.DB.Conn(ctx)
}

// restore executes a statement that heals, on the operator's connection or, while
// that does not work, on new ones.
func (s *scene) restore(ctx context.Context, c *sql.Conn, text string) error {
	ctx, cancel := healing(ctx)
	defer cancel()
	try, stop := context.WithTimeout(ctx, 5*time.Second)
	_, err := c.ExecContext(try, text)
	stop()
	for err != nil && ctx.Err() == nil {
		try, stop := context.WithTimeout(ctx, 5*time.Second)
		_, err = s.DB.ExecContext(try, text)
		stop()
		if err != nil {
			timed.Rest(ctx, 50*time.Millisecond)
		}
	}
	return notWhole(err)
}

// discard closes a connection for good: it may have settings or an open transaction.
func discard(c *sql.Conn) {
	_ = c.Raw(func(any) error { return sqldriver.ErrBadConn })
	_ = c.Close()
}

func connectionsFull(ctx context.Context, s *scene) (what string, err error) {
	d := s.while()
	operator, err := s.operator(ctx)
	if err != nil {
		return "", nil // the server is away: another fault is at it
	}
	defer discard(operator)
	var before int
	if err := operator.QueryRowContext(ctx, "SELECT @@GLOBAL.max_connections").Scan(&before); err != nil {
		return "", nil
	}
	ids, err := s.sessionIDs(ctx, operator)
	if err != nil {
		return "", nil
	}
	limit := max(10, len(ids)+1+s.rand.IntN(20))
	var taken []*sql.Conn
	defer func() {
		for _, c := range taken {
			discard(c)
		}
		err = s.restore(ctx, operator, fmt.Sprintf("SET GLOBAL max_connections=%d", before))
	}()
	if _, err := operator.ExecContext(ctx, fmt.Sprintf("SET GLOBAL max_connections=%d", limit)); err != nil {
		return "", err
	}
	for end := time.Now().Add(d); time.Now().Before(end) && ctx.Err() == nil; timed.Rest(ctx, s.between(5*time.Millisecond, s.TTL/4)) {
		for { // until there is none left
			try, stop := context.WithTimeout(ctx, time.Second)
			c, err := s.DB.Conn(try)
			if err == nil {
				err = c.PingContext(try)
			}
			stop()
			if err != nil {
				break
			}
			taken = append(taken, c)
		}
		// A session that ends makes room for the next that comes.
		if ids, err := s.sessionIDs(ctx, operator); err == nil && len(ids) > 0 {
			_, _ = operator.ExecContext(ctx, fmt.Sprintf("KILL %d", ids[s.rand.IntN(len(ids))]))
		}
	}
	return fmt.Sprintf("%d, of them %d taken by others, for %v", limit, len(taken), d), nil
}

func waitTimeout(ctx context.Context, s *scene) (what string, err error) {
	d := s.between(s.TTL/2, s.TTL) + 1500*time.Millisecond
	operator, err := s.operator(ctx)
	if err != nil {
		return "", nil
	}
	defer discard(operator)
	ids, err := s.sessionIDs(ctx, operator)
	if err != nil {
		return "", nil
	}
	if _, err := operator.ExecContext(ctx, "SET GLOBAL wait_timeout=1"); err != nil {
		return "", err
	}
	// Those that are there keep their own: end them, and not all at once.
	for i, id := range ids {
		_, _ = operator.ExecContext(ctx, fmt.Sprintf("KILL %d", id))
		if i%4 == 3 {
			timed.Rest(ctx, 10*time.Millisecond)
		}
	}
	timed.Rest(ctx, d)
	err = s.restore(ctx, operator, "SET GLOBAL wait_timeout=28800")
	heal, cancel := healing(ctx)
	defer cancel()
	// The same for those that have come since.
	young, e := s.sessionIDs(heal, s.DB)
	for _, id := range young {
		_, _ = s.DB.ExecContext(heal, fmt.Sprintf("KILL %d", id))
	}
	return fmt.Sprint(d), errors.Join(err, notWhole(e))
}
