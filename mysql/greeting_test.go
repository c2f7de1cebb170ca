package mysqllock

import (
	"bytes"
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/internal/testserver"
	"github.com/rowlock/rowlock/mysql/internal/conn"
)

// mute accepts connections and never says a word.
func mute(t *testing.T) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	var mu sync.Mutex
	var all []net.Conn
	t.Cleanup(func() {
		_ = l.Close()
		mu.Lock()
		defer mu.Unlock()
		for _, c := range all {
			_ = c.Close()
		}
	})
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			all = append(all, c)
			mu.Unlock()
		}
	}()
	return l.Addr().String()
}

// TestAServerThatNeverSpeaks: a frozen server, or a proxy without one behind it, accepts connections and says nothing.
// A caller without an end gets an error nevertheless, and one with an end is told why.
func TestAServerThatNeverSpeaks(t *testing.T) {
	testserver.Long(t)
	t.Parallel()
	addr := mute(t)
	dsn := "user:secret@tcp(" + addr + ")/db"
	store := func(t *testing.T, own bool, o Options) *Store {
		t.Helper()
		var s *Store
		var err error
		if own {
			s, err = Open(dsn, o)
		} else {
			config, parsed := mysql.ParseDSN(dsn)
			must(t, parsed)
			config.Logger = &mysql.NopLogger{}
			connector, made := mysql.NewConnector(config)
			must(t, made)
			db := sql.OpenDB(connector)
			t.Cleanup(func() { _ = db.Close() })
			s, err = New(db, o)
		}
		must(t, err)
		t.Cleanup(func() { _ = s.Close() })
		return s
	}
	calls := map[string]func(*Store, context.Context) error{
		"Migrate": (*Store).Migrate,
		"Check":   (*Store).Check,
		"Cluster": func(s *Store, ctx context.Context) error { _, err := s.Cluster(ctx); return err },
		"use":     func(s *Store, ctx context.Context) error { _, err := s.Inspect(ctx, []string{"k"}); return err },
	}
	var waiting sync.WaitGroup // all at once: each waits for half a minute
	defer waiting.Wait()
	for name, call := range calls {
		for pool, own := range map[string]bool{"Open": true, "New": false} {
			name := name + ", " + pool
			endless, bounded := store(t, own, Options{}), store(t, own, Options{})
			waiting.Go(func() {
				done := make(chan error, 1)
				go func() { done <- call(endless, context.Background()) }()
				select {
				case err := <-done:
					if !errors.Is(err, conn.ErrNoGreeting) || errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "stands still") || own && !strings.Contains(err.Error(), addr) {
						t.Errorf("%s, without an end: %v, want the address and the cause", name, err)
					}
				case <-time.After(10 * conn.GreetingWait):
					t.Errorf("%s, without an end: no answer", name)
				}
			})
			waiting.Go(func() {
				ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
				defer cancel()
				err := call(bounded, ctx)
				if !errors.Is(err, context.DeadlineExceeded) || own && (!strings.Contains(err.Error(), addr) || !strings.Contains(err.Error(), "stands still")) || !own && err.Error() == "context deadline exceeded" {
					t.Errorf("%s: %v, want the end of the context, the address and the cause", name, err)
				}
			})
		}
	}
	t.Run("Acquire", func(t *testing.T) {
		var mu sync.Mutex
		var log bytes.Buffer
		s := store(t, true, Options{})
		c, err := rowlock.New(s, rowlock.Options{TTL: 3 * time.Second, Logger: slog.New(slog.NewTextHandler(lockedWriter{&mu, &log}, nil))})
		must(t, err)
		ctx, cancel := context.WithTimeout(context.Background(), 8*time.Second)
		defer cancel()
		_, err = c.Acquire(ctx, "k")
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), addr) {
			t.Errorf("%v", err)
		}
		must(t, c.Close(patient(t)))
		mu.Lock()
		defer mu.Unlock()
		if !strings.Contains(log.String(), "acquire failed, trying again") || !strings.Contains(log.String(), addr) {
			t.Errorf("logged %s, want the cause", log.String())
		}
	})
}

// brokenHandshakes lets the next connects fail as a server does that lost the thread of them.
type brokenHandshakes struct {
	sqldriver.Connector
	left *atomic.Int32
	err  error
}

func (d brokenHandshakes) Connect(ctx context.Context) (sqldriver.Conn, error) {
	if d.left.Add(-1) >= 0 {
		return nil, d.err
	}
	return d.Connector.Connect(ctx)
}

// TestBrokenHandshake: a connect that the server broke off is tried once more; a server that breaks off all is told as it is.
func TestBrokenHandshake(t *testing.T) {
	each(t, func(t *testing.T, l *lab) {
		l.store()
		for text, cause := range map[string]error{
			"1158":        &mysql.MySQLError{Number: 1158, SQLState: [5]byte{'0', '8', 'S', '0', '1'}, Message: "Got an error reading communication packets"},
			"out of sync": mysql.ErrPktSync,
		} {
			for broken, works := range map[int32]bool{1: true, 1000: false} {
				left := new(atomic.Int32)
				s, err := New(l.wrapped(func(c sqldriver.Connector) sqldriver.Connector { return brokenHandshakes{c, left, cause} }), l.options())
				must(t, err)
				t.Cleanup(func() { _ = s.Close() })
				p := l.programOn(t, s, rowlock.Options{})
				lease := p.lock(t, fmt.Sprint("k", broken, text))
				left.Store(broken)
				err = p.InTx(patient(t), lease, func(context.Context, *sql.Tx) error { return nil })
				if (err == nil) != works || !works && !strings.Contains(err.Error(), text) {
					t.Errorf("%d of the handshakes broken off: %v", broken, err)
				}
				left.Store(0)
			}
		}
	})
}
