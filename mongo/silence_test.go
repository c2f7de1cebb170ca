package mongolock

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/testserver"
	"github.com/rowlock/rowlock/mongo/internal/command"
	"github.com/rowlock/rowlock/mongo/internal/document"
)

// warm makes a pool behind a proxy open n connections at least, and leaves them idle.
func warm(t *testing.T, p *proxy, s *Store, n int) {
	t.Helper()
	hello, err := s.cmd.Read(t.Context(), document.Op("hello", 1))
	must(t, err)
	version := hello.Lookup("topologyVersion")
	for wait := 100 * time.Millisecond; ; wait *= 2 {
		var wg sync.WaitGroup
		for range n {
			wg.Go(func() {
				_, err := s.cmd.Run(t.Context(), nil, bson.D{{Key: "hello", Value: 1}, {Key: "topologyVersion", Value: version}, {Key: "maxAwaitTimeMS", Value: document.Millis(wait)}})
				must(t, err)
				_, err = s.cmd.Run(t.Context(), nil, document.Op("ping", 1)) // a command of the pool, for the proxy
				must(t, err)
			})
		}
		wg.Wait()
		p.mu.Lock()
		open := len(p.pooled)
		p.mu.Unlock()
		if open >= n*3/4 {
			return
		}
	}
}

// viaProxy opens a Store on a client whose connections go through a proxy.
func viaProxy(t *testing.T, opts ...*options.ClientOptions) (*proxy, *Store) {
	t.Helper()
	uri := testserver.DSN(t, testserver.Mongo)
	p, via := newProxy(t, uri)
	db := database(t, uri)
	open(t, db, Options{})
	s, err := New(connect(t, via, opts...).Database(db.Name()).Collection("locks"), Options{})
	must(t, err)
	t.Cleanup(func() { _ = s.Close() })
	must(t, s.Check(t.Context()))
	return p, s
}

// All idle connections of the pool die without a word. The server is well, and so are
// new connections: no lease is lost, and a free key can be had long before a TTL is over.
func TestP26_DeadIdleConnections(t *testing.T) {
	testserver.Long(t)
	t.Parallel()
	for _, c := range []struct {
		ttl  time.Duration
		idle int
	}{{6 * time.Second, 10}, {30 * time.Second, 16}, {9 * time.Second, 40}} {
		t.Run(fmt.Sprint(c.ttl, " ", c.idle), func(t *testing.T) {
			t.Parallel()
			p, s := viaProxy(t)
			l, err := rowlock.New(s, rowlock.Options{TTL: c.ttl})
			must(t, err)
			defer l.Close(context.Background())
			lease, err := l.Acquire(t.Context(), "held")
			must(t, err)
			warm(t, p, s, c.idle)
			dead, renewals, start := p.deaden(), l.Stats().Renewals, time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), max(c.ttl-c.ttl/10, 10*time.Second)-time.Second)
			defer cancel()
			free, err := l.Acquire(ctx, "free")
			if err != nil {
				t.Fatalf("P26: acquire of a free key, %d idle connections being dead, failed after %v: %v", dead, time.Since(start), err)
			}
			t.Logf("acquire of a free key, %d idle connections being dead: %v", dead, time.Since(start))
			for l.Stats().Renewals < renewals+2 {
				select {
				case <-lease.Done():
					t.Fatalf("P26: lost after %v: %v", time.Since(start), lease.Err())
				case <-time.After(10 * time.Millisecond):
				}
			}
			must(t, free.Release(t.Context()))
			must(t, lease.Release(t.Context()))
		})
	}
}

// Each step of the Store gets over a dead connection by itself, or says that it was silent.
func TestP26_EachStepOnADeadConnection(t *testing.T) {
	testserver.Long(t)
	t.Parallel()
	p, s := viaProxy(t)
	freed(t, s, requests("k", 3))
	h := granted(t, s, request("held"))
	step := func(what string, do func(ctx context.Context) error) {
		t.Helper()
		p.deaden()
		ctx, cancel := context.WithTimeout(t.Context(), testserver.Patience(t))
		defer cancel()
		start := time.Now()
		err := do(ctx)
		for errors.Is(err, command.ErrSilent) && driver.IsSilent(err) {
			t.Logf("%s: %v", what, err)
			err = do(ctx)
		}
		if err != nil {
			t.Errorf("P26: %s, after %v: %v", what, time.Since(start), err)
		}
		if d := time.Since(start); d > 45*time.Second {
			t.Errorf("P26: %s on a dead connection took %v", what, d)
		}
	}
	q := request("k")
	step("acquire", func(ctx context.Context) error {
		results, err := s.Acquire(ctx, []driver.Request{q})
		if err == nil && results[0].Status != driver.Granted {
			err = fmt.Errorf("%v: %w", results[0].Status, results[0].Err)
		}
		return err
	})
	step("acquire of several", func(ctx context.Context) error {
		results, err := s.Acquire(ctx, requests("k", 3))
		for _, r := range results {
			if r.Status != driver.Granted {
				err = fmt.Errorf("%v: %w", r.Status, r.Err)
			}
		}
		return err
	})
	step("inspect", func(ctx context.Context) error { _, err := s.Inspect(ctx, []string{"k"}); return err })
	step("renew", func(ctx context.Context) error {
		results, err := s.Renew(ctx, []driver.Hold{h})
		if err == nil && results[0].Status != driver.Alive {
			err = fmt.Errorf("%v: %w", results[0].Status, results[0].Err)
		}
		return err
	})
	step("release", func(ctx context.Context) error {
		results, err := s.Release(ctx, []driver.Hold{h})
		if err == nil && results[0].Status != driver.Released {
			err = fmt.Errorf("%v: %w", results[0].Status, results[0].Err)
		}
		return err
	})
	step("undo", func(ctx context.Context) error {
		results, err := s.Release(ctx, []driver.Hold{{Key: q.Key, ID: q.ID, Undo: true}})
		if err == nil && results[0].Status != driver.Released {
			err = fmt.Errorf("%v: %w", results[0].Status, results[0].Err)
		}
		return err
	})
}

// The error of a caller that waits for a server that cannot be found says why.
func TestUnreachable(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, uri, says string
		opts            *options.ClientOptions
	}{
		{"wrong host", "mongodb://127.0.0.1:1/?directConnection=true", "127.0.0.1:1", options.Client()},
		{"wrong replica set", testserver.DSN(t, testserver.Mongo), "replicaSet", options.Client().SetReplicaSet("no-such-set").SetDirect(false)},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			client := connect(t, c.uri, c.opts.SetServerSelectionTimeout(time.Minute))
			s, err := New(client.Database("rowlock").Collection("locks"), Options{})
			must(t, err)
			var log safeLog
			l, err := rowlock.New(s, rowlock.Options{TTL: 3 * time.Second, Logger: slog.New(slog.NewTextHandler(&log, nil))})
			must(t, err)
			for _, step := range []struct {
				name string
				do   func(ctx context.Context) error
			}{
				{"Acquire", func(ctx context.Context) error { _, err := l.Acquire(ctx, "k"); return err }},
				{"TryAcquire", func(ctx context.Context) error { _, err := l.TryAcquire(ctx, "k"); return err }},
				{"Inspect", func(ctx context.Context) error { _, err := l.Inspect(ctx, "k"); return err }},
			} {
				var err error
				says := func() bool {
					return err != nil && strings.Contains(err.Error(), "server selection error") && strings.Contains(err.Error(), c.says)
				}
				for d := 4 * time.Second; !says() && d < testserver.Patience(t); d *= 2 { // a busy machine needs more
					ctx, cancel := context.WithTimeout(t.Context(), d)
					err = step.do(ctx)
					cancel()
				}
				if !says() {
					t.Errorf("%s: %v; want the driver's server selection error", step.name, err)
				}
				if step.name == "Acquire" && !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("%s: %v, want one that matches context.DeadlineExceeded", step.name, err)
				}
			}
			if text := log.text(); !strings.Contains(text, "acquire failed, trying again") || !strings.Contains(text, "server selection error") {
				t.Errorf("the log does not say that an Acquire fails, and why:\n%s", text)
			}
		})
	}
}
