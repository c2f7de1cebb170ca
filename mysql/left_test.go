package mysqllock

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"testing"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/testserver"
	"github.com/rowlock/rowlock/mysql/internal/session"
)

// leave makes the address lead to the second of the twins. The first does not know that it is the primary no more, as one
// that only the other servers cannot reach, and the connections to it stay open.
func (w *twins) leave(t testing.TB) {
	t.Helper()
	w.both[1].readOnly(t, false)
	w.at.server.Store(&w.both[1].addr)
}

// lives reports whether a row of the key is in a table of one of them, and is of a hold that was not released.
func (w *twins) lives(t testing.TB, i int, table, key string) (lives bool) {
	t.Helper()
	must(t, w.both[i].db.QueryRow("SELECT COUNT(*) FROM "+table+" WHERE name=? AND released_at IS NULL", key).Scan(&lives))
	return lives
}

// TestP26_ServerThatWasLeft: a hold is granted on a connection to the new primary, and renewed, released or forced free on one that
// was opened before and leads to the old one, which knows nothing of it. That is no word on the hold.
func TestP26_ServerThatWasLeft(t *testing.T) {
	testserver.Long(t)
	requests := map[string]func(key string) driver.Request{
		"exclusive": func(key string) driver.Request { return request(key, time.Minute) },
		"reader":    func(key string) driver.Request { return reader(key, time.Minute) },
		"slot":      func(key string) driver.Request { return slotOf(key, 2, time.Minute) },
	}
	onTwins(t, func(t *testing.T, w *twins) {
		for _, strategy := range []Strategy{VersionColumn, UniqueInsert, SelectForUpdate} {
			for mode, ask := range requests {
				calls := []string{"renew", "renew two", "release", "undo", "force"}
				if strategy == SelectForUpdate && mode == "exclusive" {
					calls = calls[4:] // renewed and released on its own session
				}
				for _, call := range calls {
					t.Run(fmt.Sprint(strategy, "/", mode, "/", call), func(t *testing.T) {
						w.to(t, 0)
						l := &lab{t: t, kind: w.kind, config: w.config, strategy: strategy}
						s := l.bare()
						c := client{t: t, Store: s}
						warm(t, s)
						key := fmt.Sprint(mode, " ", call)
						old := c.grant(ask("old " + key))
						a, err := s.db.Acquires.Get(patient(t))
						must(t, err)
						w.leave(t)
						s.db.Acquires.CloseIdle()                       // of all that were open those for acquires have ended, but for one
						(&lab{t: t, db: w.both[1].db}).waitForUptime(5) // a younger server's session numbers are not believed: see killSession
						h := c.grant(ask(key))
						a.Put()
						table := l.shares()
						if mode == "exclusive" {
							table = l.table()
						}
						if !w.lives(t, 1, table, key) || w.lives(t, 0, table, key) {
							t.Fatal("it was not granted on the second server only")
						}
						switch call {
						case "renew":
							c.wants("P26: a hold that nobody removed", c.renew(h)[0].Status, driver.Alive)
						case "renew two": // one of them the first server knows
							both := c.renew(h, old)
							c.wants("P26: a hold that nobody removed", both[0].Status, driver.Alive)
						case "force":
							info, err := s.ForceRelease(patient(t), key)
							must(t, err)
							if !info.Held {
								t.Errorf("a key that is held is forced free as one that is not: %+v", info)
							}
							if w.lives(t, 1, table, key) {
								t.Error("it was not ended where it is")
							}
						default:
							h.Undo = call == "undo"
							c.wants("the end of a hold that nobody removed", c.release(h)[0].Status, driver.Released)
							if w.lives(t, 1, table, key) {
								t.Error("it was not ended where it is")
							}
						}
					})
				}
			}
		}
	})
}

// TestP26_SessionBesideAServerThatWasLeft: the session of an acquire leads to the new primary, and the connection that writes for it
// was opened before and leads to the old one. A hold is granted on a session that can be used further, or not at all.
func TestP26_SessionBesideAServerThatWasLeft(t *testing.T) {
	testserver.Long(t)
	onTwins(t, func(t *testing.T, w *twins) {
		calls := map[string]func(t *testing.T, s *Store, r driver.Request) (driver.Result, error){
			"try": func(t *testing.T, s *Store, r driver.Request) (driver.Result, error) {
				return client{t: t, Store: s}.acquire(r)[0], nil
			},
			"wait": func(t *testing.T, s *Store, r driver.Request) (driver.Result, error) {
				return s.AcquireWait(patient(t), r, func() {})
			},
		}
		for what, call := range calls {
			for _, key := range []string{"with rows", "new " + what} {
				t.Run(what+"/"+key, func(t *testing.T) {
					w.to(t, 0)
					l := &lab{t: t, kind: w.kind, config: w.config, strategy: SelectForUpdate}
					s := l.bare()
					c := client{t: t, Store: s}
					strategy := s.strategy.(*session.ForUpdate)
					if key == "with rows" {
						for _, text := range []string{strategy.CreateLease(key), strategy.CreateRow(key)} {
							exec(t, w.both[1].db, text)
						}
					}
					c.release(c.granted("another", time.Minute)) // leaves connections
					if len(s.db.Acquires.Idle()) == 0 {
						t.Fatal("no connection to the first server rests")
					}
					w.leave(t)
					strategy.Sessions.CloseIdle()
					r := request(key, time.Minute)
					result, err := call(t, s, r)
					if what == "wait" && cmp.Or(err, result.Err) != nil { // the engine waits again
						t.Log(err, result.Err)
						r = request(key, time.Minute)
						result, err = call(t, s, r)
					}
					must(t, cmp.Or(err, result.Err))
					c.wants("P27: a free key", result.Status, driver.Granted)
					h := driver.Hold{Key: key, ID: r.ID, Token: result.Token, TTL: r.TTL}
					c.wants("P26: a hold that nobody removed", c.renew(h)[0].Status, driver.Alive)
					c.wants("the end of a hold that nobody removed", c.release(h)[0].Status, driver.Released)
				})
			}
		}
	})
}

// TestP27_TransactionsOnAServerThatWasLeft: as TestP26_ServerThatWasLeft, for guarded transactions.
func TestP27_TransactionsOnAServerThatWasLeft(t *testing.T) {
	onTwins(t, func(t *testing.T, w *twins) {
		for _, strategy := range []Strategy{VersionColumn, UniqueInsert, SelectForUpdate} {
			for _, call := range []string{"guard", "in tx", "once"} {
				t.Run(fmt.Sprint(strategy, "/", call), func(t *testing.T) {
					w.to(t, 0)
					l := &lab{t: t, kind: w.kind, config: w.config, strategy: strategy}
					s := l.bare()
					p := l.programOn(t, s, rowlock.Options{})
					ctx := patient(t)
					write := func(ctx context.Context, tx *sql.Tx) error { return note(ctx, tx, fmt.Sprint(strategy, call)) }
					first := p.lock(t, "first "+call)
					must(t, p.InTx(ctx, first, func(context.Context, *sql.Tx) error { return nil })) // its connection rests
					a, err := s.db.Acquires.Get(ctx)
					must(t, err)
					w.leave(t)
					s.db.Acquires.CloseIdle()
					lease := p.lock(t, call)
					a.Put() // is used first
					switch call {
					case "guard":
						var tx *sql.Tx
						tx, err = l.open(w.config).Begin()
						must(t, err)
						if err = p.Guard(ctx, tx, lease); err == nil {
							err = write(ctx, tx)
						}
						if err == nil {
							err = tx.Commit()
						}
						_ = tx.Rollback()
					case "in tx":
						err = p.InTx(ctx, lease, write)
					case "once":
						err = p.Once(ctx, lease, strategy.String(), write)
					}
					if err != nil {
						t.Errorf("under a lease that nobody ended: %v", err)
					}
					if n := w.noted(t, 1, fmt.Sprint(strategy, call)); n != 1 {
						t.Errorf("%d effects on the new primary", n)
					}
				})
			}
		}
	})
}
