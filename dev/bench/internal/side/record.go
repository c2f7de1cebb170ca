package side

import (
	"context"
	"crypto/rand"
	"database/sql"
	sqldriver "database/sql/driver"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/rowlock/rowlock/driver"
	mysqllock "github.com/rowlock/rowlock/mysql"
)

// single sends the library's own statements for one key, one lock at a time and a
// connection for each caller: what rowlock would do without coalescing. The
// statements are recorded from the library once, so they are always its present
// ones; key and hold ID are then put in their place. Nothing else of the library
// is paid for.
type single struct {
	db               *sql.DB
	acquire, release []template
}

// template is a statement with the places of key and hold ID.
type template struct {
	parts []string
	query bool // it gives rows
}

const (
	keyMark  = "\x00key\x00"
	holdMark = "\x00hold\x00"
)

func openSingleSQL(ctx context.Context, s Spec) (Locker, error) {
	strategy := mysqllock.VersionColumn
	if s.Kind == SingleUnique {
		strategy = mysqllock.UniqueInsert
	}
	acquire, release, err := record(ctx, s, strategy)
	if err != nil {
		return nil, err
	}
	db, err := OpenSQL(s.Address, s.Callers)
	if err != nil {
		return nil, err
	}
	return &single{db: db, acquire: acquire, release: release}, nil
}

// record lets the library acquire and release a key, and keeps what it sent.
func record(ctx context.Context, s Spec, strategy mysqllock.Strategy) (acquire, release []template, err error) {
	config, err := mysql.ParseDSN(s.Address)
	if err != nil {
		return nil, nil, err
	}
	connector, err := mysql.NewConnector(config)
	if err != nil {
		return nil, nil, err
	}
	rec := &recorder{Connector: connector}
	db := sql.OpenDB(rec)
	defer db.Close()
	store, err := mysqllock.New(db, mysqllock.Options{Strategy: strategy, Prefix: s.Prefix})
	if err != nil {
		return nil, nil, err
	}
	defer store.Close()
	q := driver.Request{Key: "recorded-" + rand.Text(), Owner: "bench", TTL: 30 * time.Second}
	_, _ = rand.Read(q.ID[:])
	results, err := store.Acquire(ctx, []driver.Request{q})
	if err != nil || results[0].Status != driver.Granted {
		return nil, nil, fmt.Errorf("recording: %v (%w)", results, err)
	}
	acquire = rec.take(q.Key, q.ID)
	if _, err = store.Release(ctx, []driver.Hold{{Key: q.Key, ID: q.ID, Token: results[0].Token, Stored: results[0].Stored}}); err != nil {
		return nil, nil, err
	}
	release = rec.take(q.Key, q.ID)
	if len(acquire) == 0 || len(release) == 0 {
		return nil, nil, errors.New("the library's statements do not show their key")
	}
	return acquire, release, nil
}

func (s *single) Lock(ctx context.Context, key string) (Hold, error) {
	var id driver.HoldID
	_, _ = rand.Read(id[:])
	c, err := s.db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	for _, t := range s.acquire {
		if err := t.send(ctx, c, key, id); err != nil {
			return nil, err
		}
	}
	return singleHold{s, key, id}, nil
}

func (s *single) Close() error { return s.db.Close() }

type singleHold struct {
	s   *single
	key string
	id  driver.HoldID
}

func (h singleHold) Unlock(ctx context.Context) error {
	c, err := h.s.db.Conn(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	for _, t := range h.s.release {
		if err := t.send(ctx, c, h.key, h.id); err != nil {
			return err
		}
	}
	return nil
}

func (t template) send(ctx context.Context, c *sql.Conn, key string, id driver.HoldID) error {
	var b strings.Builder
	for _, p := range t.parts {
		switch p {
		case keyMark:
			b.WriteString(hex.EncodeToString([]byte(key)))
		case holdMark:
			b.WriteString(id.String())
		default:
			b.WriteString(p)
		}
	}
	if t.query {
		rows, err := c.QueryContext(ctx, b.String())
		if err != nil {
			return err
		}
		found := rows.Next()
		if err := errors.Join(rows.Close(), rows.Err()); err != nil || !found {
			return fmt.Errorf("no row of %s (%w)", key, err)
		}
		return nil
	}
	r, err := c.ExecContext(ctx, b.String())
	if err != nil {
		return err
	}
	if n, err := r.RowsAffected(); err != nil || n == 0 {
		return fmt.Errorf("no row of %s changed (%w)", key, err)
	}
	return nil
}

// recorder hands out connections that note each statement.
type recorder struct {
	sqldriver.Connector
	mu   sync.Mutex
	sent []template
}

func (r *recorder) note(statement string, query bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sent = append(r.sent, template{parts: []string{statement}, query: query})
}

// take returns, as templates, the statements since the last take that name the key.
func (r *recorder) take(key string, id driver.HoldID) (found []template) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, t := range r.sent {
		text := t.parts[0]
		if !strings.Contains(text, hex.EncodeToString([]byte(key))) {
			continue
		}
		text = strings.ReplaceAll(text, hex.EncodeToString([]byte(key)), "\x01"+keyMark+"\x01")
		text = strings.ReplaceAll(text, id.String(), "\x01"+holdMark+"\x01")
		found = append(found, template{parts: strings.Split(text, "\x01"), query: t.query})
	}
	r.sent = nil
	return found
}

// Connect implements the driver's Connector.
func (r *recorder) Connect(ctx context.Context) (sqldriver.Conn, error) {
	c, err := r.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return recordingConn{c.(mysqlConn), r}, nil
}

// mysqlConn is what the driver's connections can do and the library uses.
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

func (c recordingConn) ExecContext(ctx context.Context, s string, args []sqldriver.NamedValue) (sqldriver.Result, error) {
	c.rec.note(s, false)
	return c.mysqlConn.ExecContext(ctx, s, args)
}

func (c recordingConn) QueryContext(ctx context.Context, s string, args []sqldriver.NamedValue) (sqldriver.Rows, error) {
	c.rec.note(s, true)
	return c.mysqlConn.QueryContext(ctx, s, args)
}
