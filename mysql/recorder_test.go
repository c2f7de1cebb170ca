package mysqllock

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"sync"

	"github.com/go-sql-driver/mysql"
)

// recorded is a store whose statements are noted.
func (l *lab) recorded(rec *recorder) *Store {
	l.t.Helper()
	l.store() // makes the tables
	connector, err := mysql.NewConnector(l.config.Clone())
	must(l.t, err)
	db := sql.OpenDB(recordingConnector{connector, rec})
	l.t.Cleanup(func() { _ = db.Close() })
	s, err := New(db, Options{Strategy: l.strategy, WakeupConns: 1})
	must(l.t, err)
	l.t.Cleanup(func() { _ = s.Close() })
	return s
}

// recorder notes statements.
type recorder struct {
	mu         sync.Mutex
	statements []string
	saw        func(context.Context) // is called before each; nil: nothing
	stops      func(string) error    // is called before each; its error is the answer; nil: nothing
	closed     int                   // connections
}

func (r *recorder) note(ctx context.Context, s string) error {
	r.mu.Lock()
	saw, stops := r.saw, r.stops
	r.statements = append(r.statements, s)
	r.mu.Unlock()
	if saw != nil {
		saw(ctx)
	}
	if stops != nil {
		return stops(s)
	}
	return nil
}

// stop sets what is called before each statement, and may keep it from the server.
func (r *recorder) stop(stops func(statement string) error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stops = stops
}

// watch sets what is called before each statement, and gives the number of
// connections that were closed since the last time.
func (r *recorder) watch(saw func(context.Context)) (closed int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	closed, r.closed, r.saw = r.closed, 0, saw
	return closed
}

// take returns what was noted since the last time.
func (r *recorder) take() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.statements
	r.statements = nil
	return s
}

type recordingConnector struct {
	sqldriver.Connector
	rec *recorder
}

func (c recordingConnector) Connect(ctx context.Context) (sqldriver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &recordingConn{mysqlConn: conn.(mysqlConn), rec: c.rec}, nil
}

// mysqlConn is what the driver's connections can do and the Store uses.
type mysqlConn interface {
	sqldriver.Conn
	sqldriver.ExecerContext
	sqldriver.QueryerContext
	sqldriver.Pinger
	sqldriver.SessionResetter
	sqldriver.Validator
}

type recordingConn struct {
	mysqlConn
	rec *recorder
}

func (c *recordingConn) ExecContext(ctx context.Context, s string, args []sqldriver.NamedValue) (sqldriver.Result, error) {
	if err := c.rec.note(ctx, s); err != nil {
		return nil, err
	}
	return c.mysqlConn.ExecContext(ctx, s, args)
}

func (c *recordingConn) QueryContext(ctx context.Context, s string, args []sqldriver.NamedValue) (sqldriver.Rows, error) {
	if err := c.rec.note(ctx, s); err != nil {
		return nil, err
	}
	return c.mysqlConn.QueryContext(ctx, s, args)
}

func (c *recordingConn) Close() error {
	c.rec.mu.Lock()
	c.rec.closed++
	c.rec.mu.Unlock()
	return c.mysqlConn.Close()
}
