package mysqllock

import (
	"bytes"
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/doctor"
	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/mysql/internal/conn"
)

// sharedPool is a pool of the program's, on which its Store is made too. The user is
// its own, so that its connections can be told from the lab's.
func (l *lab) sharedPool(t testing.TB, most int, o Options) (pool *sql.DB, s *Store, user string) {
	t.Helper()
	user = "s" + strings.ToLower(rand.Text()[:12])
	exec(t, l.db, "CREATE USER "+user+"@'%' IDENTIFIED BY 'pw'")
	t.Cleanup(func() { _, _ = l.db.Exec("DROP USER " + user + "@'%'") })
	exec(t, l.db, "GRANT SELECT, INSERT, UPDATE, DELETE ON "+l.config.DBName+".* TO "+user+"@'%'")
	config := l.config.Clone()
	config.User, config.Passwd = user, "pw"
	pool = l.open(config)
	pool.SetMaxOpenConns(most)
	o.Strategy = l.strategy
	s, err := New(pool, o)
	must(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return pool, s, user
}

// TestP26_GuardsOnASharedPool: more workers than the pool has connections begin a
// transaction and guard it; the server ends the Store's connections. The Store then
// needs connections that the waiting transactions have.
func TestP26_GuardsOnASharedPool(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, l *lab) {
		l.store()
		for _, verb := range []string{"Guard", "MarkRun", "LockTx"} {
			t.Run(verb, func(t *testing.T) {
				pool, s, user := l.sharedPool(t, 20, Options{})
				pool.SetMaxIdleConns(-1) // so that all sessions of before the workers are the Store's
				const ttl = 15 * time.Second
				p := l.programOn(t, s, rowlock.Options{TTL: ttl})
				ctx := patient(t)
				const workers = 30
				busy := premise(t, l)
				leases := make([]*rowlock.Lease, workers)
				for i := range leases {
					leases[i] = p.lock(t, fmt.Sprint("k", i))
				}
				ofStore := sessionsOf(t, l, user)
				ended := make(chan struct{})
				var all sync.WaitGroup
				for i, lease := range leases {
					all.Go(func() {
						for try := 0; ; try++ {
							tx, err := pool.BeginTx(ctx, nil)
							if err != nil {
								t.Errorf("P26: worker %d: begin, try %d: %v", i, try, err)
								return
							}
							<-ended
							switch verb {
							case "Guard":
								err = s.Guard(ctx, tx, lease)
							case "MarkRun":
								err = s.MarkRun(ctx, tx, lease, "run")
							case "LockTx":
								err = s.LockTx(ctx, tx, lease.Key())
							}
							if err == nil {
								err = tx.Commit()
							} else {
								_ = tx.Rollback()
							}
							switch {
							case err == nil:
								return
							case ctx.Err() != nil:
								t.Errorf("P26: worker %d waited until its own context ended: %v", i, err)
								return
							case errors.Is(err, rowlock.ErrLost): // is counted below
								return
							case !errors.Is(err, rowlock.ErrConflict):
								t.Errorf("P26: worker %d: %v", i, err)
								return
							}
						}
					})
				}
				eventually(t, "the pool is used up", func() bool { return pool.Stats().InUse == 20 && pool.Stats().WaitCount > 0 })
				for _, id := range ofStore {
					exec(t, l.db, fmt.Sprintf("KILL CONNECTION %d", id))
				}
				close(ended)
				all.Wait()
				lost := 0
				for _, lease := range leases {
					if err := lease.Err(); err != nil {
						t.Log(err)
						lost++
					}
				}
				noneLost(t, lost, workers, ttl, busy())
			})
		}
	})
}

// TestPoolUsedUp: who cannot get a connection of the caller's pool is told so, and
// the log too.
func TestPoolUsedUp(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, l *lab) {
		l.store()
		const most = 16
		pool, s, _ := l.sharedPool(t, most, Options{})
		var mu sync.Mutex
		var log bytes.Buffer
		p := l.programOn(t, s, rowlock.Options{Logger: slog.New(slog.NewTextHandler(lockedWriter{&mu, &log}, nil))})
		for range most {
			c, err := pool.Conn(patient(t))
			must(t, err)
			defer c.Close()
		}
		const busy = "no connection of the pool was free (16 of 16 in use)"
		short := func() context.Context { return within(t, 3*conn.OpenWait) }
		says := func(what string, err error, passing bool) {
			t.Helper()
			switch {
			case err == nil || !strings.Contains(err.Error(), busy):
				t.Errorf("%s: %v: does not say %q", what, err, busy)
			case driver.IsLasting(err):
				t.Errorf("%s: %v: lasting", what, err)
			case passing && !errors.Is(err, context.DeadlineExceeded):
				t.Errorf("%s: %v: does not match the context's error", what, err)
			}
		}
		says("Check", s.Check(short()), false)
		_, err := p.TryAcquire(short(), "a")
		says("TryAcquire", err, false)
		_, err = p.Client.Acquire(short(), "a")
		says("Acquire", err, true)
		mu.Lock()
		if !strings.Contains(log.String(), busy) {
			t.Errorf("the log does not say it: %s", log.String())
		}
		mu.Unlock()
	})
}

// TestPoolUsedUpByTransactions is TestPoolUsedUp for those who hold a lease.
func TestPoolUsedUpByTransactions(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, l *lab) {
		l.store()
		pool, s, _ := l.sharedPool(t, 16, Options{})
		p := l.programOn(t, s, rowlock.Options{})
		lease := p.lock(t, "a")
		short := p.lock(t, "b", rowlock.TTL(10*l.shortest()), rowlock.NoRenew())
		for pool.Stats().InUse < 16 {
			c, err := pool.Conn(patient(t))
			must(t, err)
			defer c.Close()
		}
		const busy = "no connection of the pool was free (16 of 16 in use)"
		for what, err := range map[string]error{
			"InTx": s.InTx(within(t, time.Second), lease, func(context.Context, *sql.Tx) error { return nil }),
			"Once": s.Once(within(t, time.Second), lease, "run", func(context.Context, *sql.Tx) error { return nil }),
		} {
			if err == nil || !strings.Contains(err.Error(), busy) || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s: %v: does not say %q and that ctx ended", what, err, busy)
			}
		}
		err := s.InTx(patient(t), short, func(context.Context, *sql.Tx) error { return nil })
		if reasonOf(err) != rowlock.ReasonExpired {
			t.Errorf("P26: InTx that waits for a connection longer than its lease: %v", err)
		}
	})
}

type lockedWriter struct {
	mu *sync.Mutex
	w  *bytes.Buffer
}

func (w lockedWriter) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.w.Write(b)
}

// TestPoolUsedUpAtFirst is TestPoolUsedUp for what a program calls before anything else, and for callers that have less time
// than a store waits for a connection.
func TestPoolUsedUpAtFirst(t *testing.T) {
	onServers(t, func(t *testing.T, l *lab) {
		l.store()
		for _, most := range []time.Duration{conn.OpenWait / 4, 3 * conn.OpenWait} {
			for name, call := range map[string]func(context.Context, *Store, *sql.Tx) error{
				"Check":   func(ctx context.Context, s *Store, _ *sql.Tx) error { return s.Check(ctx) },
				"Migrate": func(ctx context.Context, s *Store, _ *sql.Tx) error { return s.Migrate(ctx) },
				"Cluster": func(ctx context.Context, s *Store, _ *sql.Tx) error { _, err := s.Cluster(ctx); return err },
				"Doctor": func(ctx context.Context, s *Store, _ *sql.Tx) error {
					_, err := s.Doctor(ctx, doctor.Options{})
					return err
				},
				"LockTx": func(ctx context.Context, s *Store, tx *sql.Tx) error { return s.LockTx(ctx, tx, "k") },
				"List":   func(ctx context.Context, s *Store, _ *sql.Tx) error { _, err := s.List(ctx, "", "", 1); return err },
				"Reap":   func(ctx context.Context, s *Store, _ *sql.Tx) error { _, err := s.Reap(ctx, 48*time.Hour); return err },
				"Marks":  func(ctx context.Context, s *Store, _ *sql.Tx) error { _, err := s.Marks(ctx, "k", 1); return err },
				"ForceRelease": func(ctx context.Context, s *Store, _ *sql.Tx) error {
					_, err := s.ForceRelease(ctx, "k")
					return err
				},
				"Inspect": func(ctx context.Context, s *Store, _ *sql.Tx) error {
					_, err := s.Inspect(ctx, []string{"k"})
					return err
				},
			} {
				t.Run(fmt.Sprint(name, most), func(t *testing.T) {
					t.Parallel()
					pool, s, _ := l.sharedPool(t, 16, Options{})
					tx, err := pool.BeginTx(patient(t), nil)
					must(t, err)
					defer tx.Rollback()
					for pool.Stats().InUse < 16 {
						c, err := pool.Conn(patient(t))
						must(t, err)
						defer c.Close()
					}
					if err := call(within(t, most), s, tx); err == nil || !strings.Contains(err.Error(), "no connection of the pool was free (16 of 16 in use)") {
						t.Errorf("%v: does not name the pool and its numbers", err)
					}
				})
			}
		}
	}, VersionColumn)
}
