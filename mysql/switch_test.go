package mysqllock

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/testserver"
)

// switcher is an address that leads new connections to the server it is set to, and
// leaves the others where they are: a DNS name, or a proxy that cuts nothing.
type switcher struct {
	listener net.Listener
	server   atomic.Pointer[string]
	asks     func([]byte)        // is shown what is sent, before the server is; nil: nobody
	answers  func([]byte) []byte // what becomes of the server's; nil: nothing
	cuts     func([]byte) bool   // whether a line ends with what is sent on it, which the server does not get; nil: none does

	mu    sync.Mutex
	lines []net.Conn
	dead  []*atomic.Bool // of each client's
}

// deaden lets the connections that are open die without a word, and says how many
// they are: what goes over them is swallowed. New ones work.
func (s *switcher) deaden() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, d := range s.dead {
		if !d.Swap(true) {
			n++
		}
	}
	return n
}

// accept listens on an address of this machine, for a proxy that serves each client. At
// the end of the test it closes the listener and calls end.
func accept(t testing.TB, serve func(net.Conn), end func()) net.Listener {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() {
		_ = listener.Close()
		end()
	})
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			go serve(client)
		}
	}()
	return listener
}

func newSwitcher(t testing.TB, server string) *switcher {
	t.Helper()
	s := &switcher{}
	s.server.Store(&server)
	s.listener = accept(t, s.serve, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, line := range s.lines {
			_ = line.Close()
		}
	})
	return s
}

func (s *switcher) serve(client net.Conn) {
	server, err := net.Dial("tcp", *s.server.Load())
	if err != nil {
		_ = client.Close()
		return
	}
	s.mu.Lock()
	dead := new(atomic.Bool)
	s.lines, s.dead = append(s.lines, client, server), append(s.dead, dead)
	s.mu.Unlock()
	var both sync.WaitGroup
	for _, way := range [][2]net.Conn{{client, server}, {server, client}} {
		both.Go(func() {
			_, _ = io.Copy(way[0], shown{way[1], way[1] == server, s, dead})
			if !dead.Load() { // the end of a dead one is swallowed too
				_ = way[0].Close()
				_ = way[1].Close()
			}
		})
	}
	both.Wait()
}

// shown is what one side sends.
type shown struct {
	io.Reader
	ofServer bool
	to       *switcher
	dead     *atomic.Bool
}

func (a shown) Read(b []byte) (int, error) {
	n, err := a.Reader.Read(b)
	a.to.mu.Lock()
	answers, asks, cuts := a.to.answers, a.to.asks, a.to.cuts
	a.to.mu.Unlock()
	switch {
	case a.dead.Load():
		n = 0
	case a.ofServer && answers != nil:
		copy(b[:n], answers(b[:n]))
	case !a.ofServer && cuts != nil && cuts(b[:n]):
		return 0, io.EOF
	case !a.ofServer && asks != nil:
		asks(b[:n])
	}
	return n, err
}

// shows sets who is shown what the server answers, and what it is asked; nil: nobody.
func (s *switcher) shows(answers func([]byte) []byte, asks func([]byte)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answers, s.asks = answers, asks
}

// conflictsFor lets each answer that is the refusal be a deadlock (1213) instead, and counts them. refusal is how the protocol
// writes an error: 0xff, its number, its state.
func (s *switcher) conflictsFor(refusal string) *atomic.Int64 {
	n := new(atomic.Int64)
	s.shows(func(b []byte) []byte {
		n.Add(int64(bytes.Count(b, []byte(refusal))))
		return bytes.ReplaceAll(b, []byte(refusal), []byte("\xff\xbd\x04#40001"))
	}, nil)
	return n
}

// conflictAt lets the answer to the next question that has all the words be a deadlock (1213), and tells whether it did. All of them
// are in the question, and the first in its answer.
func (s *switcher) conflictAt(words ...string) (done func() bool) {
	asked, was := new(atomic.Bool), new(atomic.Bool)
	s.shows(func(b []byte) []byte {
		if !bytes.Contains(b, []byte(words[0])) || !asked.Load() || was.Swap(true) {
			return b
		}
		refusal := append([]byte{byte(len(b) - 4), byte((len(b) - 4) >> 8), 0, 1}, "\xff\xbd\x04#40001"...)
		return append(refusal, bytes.Repeat([]byte(" "), len(b)-len(refusal))...)
	}, func(sent []byte) {
		for _, w := range words {
			if !bytes.Contains(sent, []byte(w)) {
				return
			}
		}
		asked.Store(true)
	})
	return was.Load
}

// cut ends the next line on which a text is sent that has all the words, and tells whether it did.
func (s *switcher) cut(words ...string) (done func() bool) {
	was := new(atomic.Bool)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cuts = func(sent []byte) bool {
		for _, w := range words {
			if !bytes.Contains(sent, []byte(w)) {
				return false
			}
		}
		return !was.Swap(true)
	}
	return was.Load
}

// twin is one of two servers that take turns at being the primary.
type twin struct {
	*testserver.Server
	db   *sql.DB // of a user who may write on a read-only server
	addr string
}

func (w twin) readOnly(t testing.TB, on bool) {
	t.Helper()
	if on {
		exec(t, w.db, "SET GLOBAL read_only=1")
	} else {
		exec(t, w.db, "SET GLOBAL read_only=0")
	}
}

// twins are two servers with one user and one database, behind a switcher; the
// first is writable, the second is not. A replica has what its primary has: copy
// does that for one row.
type twins struct {
	kind   string
	at     *switcher
	both   [2]twin
	config *mysql.Config // of the user, by the switcher
}

func newTwins(t *testing.T, kind string) *twins {
	t.Helper()
	w := &twins{kind: kind}
	for i := range w.both {
		w.both[i].Server = testserver.Start(t, kind)
		config, err := mysql.ParseDSN(w.both[i].DSN())
		must(t, err)
		db, err := sql.Open("mysql", config.FormatDSN())
		must(t, err)
		defer db.Close()
		for _, text := range []string{
			"CREATE DATABASE twins",
			"CREATE USER plain@'%' IDENTIFIED BY 'pw'",
			"GRANT ALL ON twins.* TO plain@'%'",
		} {
			exec(t, db, text)
		}
		config.DBName = "twins"
		w.both[i].addr = config.Addr
		w.both[i].db, err = sql.Open("mysql", config.FormatDSN())
		must(t, err)
		t.Cleanup(func() { _ = w.both[i].db.Close() })
		exec(t, w.both[i].db, "CREATE TABLE notes (id BIGINT AUTO_INCREMENT PRIMARY KEY, text VARCHAR(100)) ENGINE=InnoDB")
		if w.config == nil {
			w.config = config.Clone()
			w.config.User, w.config.Passwd = "plain", "pw"
		}
		admin, err := Open(config.FormatDSN(), Options{})
		must(t, err)
		must(t, admin.Migrate(patient(t)))
		must(t, admin.Close())
	}
	w.at = newSwitcher(t, w.both[0].addr)
	w.config.Addr = w.at.listener.Addr().String()
	w.both[1].readOnly(t, true)
	return w
}

// to makes one of them the primary.
func (w *twins) to(t testing.TB, i int) {
	t.Helper()
	w.both[1-i].readOnly(t, true)
	w.both[i].readOnly(t, false)
	w.at.server.Store(&w.both[i].addr)
}

// copy replicates the row of a key.
func (w *twins) copy(t testing.TB, table, key string, from int) {
	t.Helper()
	rows, err := w.both[from].db.Query("SELECT * FROM "+table+" WHERE name=?", key)
	must(t, err)
	defer rows.Close()
	columns, err := rows.Columns()
	must(t, err)
	values := make([]any, len(columns))
	for i := range values {
		values[i] = new(sql.NullString)
	}
	if !rows.Next() {
		t.Fatalf("table %s has no row of %q", table, key)
	}
	must(t, rows.Scan(values...))
	_, err = w.both[1-from].db.Exec("REPLACE INTO "+table+" ("+strings.Join(columns, ",")+") VALUES (?"+strings.Repeat(",?", len(columns)-1)+")", values...)
	must(t, err)
}

func (w *twins) noted(t testing.TB, i int, text string) (n int) {
	t.Helper()
	must(t, w.both[i].db.QueryRow("SELECT COUNT(*) FROM notes WHERE text=?", text).Scan(&n))
	return n
}

func onTwins(t *testing.T, f func(t *testing.T, w *twins)) {
	t.Parallel()
	for _, kind := range testserver.Some(t, testserver.MySQL, testserver.MariaDB) {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			f(t, newTwins(t, kind))
		})
	}
}

// TestSwitchedPrimary: the address leads to another primary, the connections to the
// one before stay open, and it answers there that it is read-only.
func TestSwitchedPrimary(t *testing.T) {
	onTwins(t, func(t *testing.T, w *twins) {
		for _, strategy := range []Strategy{VersionColumn, UniqueInsert, SelectForUpdate} {
			t.Run(strategy.String(), func(t *testing.T) {
				w.to(t, 0)
				l := &lab{t: t, kind: w.kind, config: w.config, strategy: strategy}
				p := l.programOn(t, l.bare(), rowlock.Options{})
				for i, round := range []string{"once", "in tx"} {
					// Connections of all kinds rest, several of each.
					lease := p.lock(t, "busy")
					var rest sync.WaitGroup
					var inside sync.WaitGroup
					inside.Add(4)
					for range 4 {
						rest.Go(func() {
							if err := p.InTx(patient(t), lease, func(context.Context, *sql.Tx) error { inside.Done(); inside.Wait(); return nil }); err != nil {
								t.Error(err)
								inside.Done()
							}
						})
						rest.Go(func() {
							if _, err := p.Store.Inspect(patient(t), []string{"x"}); err != nil {
								t.Error(err)
							}
						})
					}
					rest.Wait()
					must(t, lease.Release(patient(t)))

					w.to(t, 1-i)
					lease, err := p.TryAcquire(patient(t), round)
					if err != nil {
						t.Errorf("TryAcquire after the switch: %v", err)
						lease = p.lock(t, round)
					}
					if _, err := p.Inspect(patient(t), round); err != nil {
						t.Errorf("Inspect after the switch: %v", err)
					}
					w.copy(t, l.table(), round, 1-i)
					var raw []error
					work := func() error {
						write := func(ctx context.Context, tx *sql.Tx) error { return note(ctx, tx, strategy.String()+round) }
						if round == "once" {
							return p.Once(patient(t), lease, strategy.String(), write)
						}
						return p.InTx(patient(t), lease, write)
					}
					for range 8 {
						if err = work(); err == nil {
							break
						}
						if raw = append(raw, err); !errors.Is(err, rowlock.ErrConflict) {
							t.Errorf("%s after the switch: %v: not marked as one to run again", round, err)
						}
					}
					if err != nil {
						t.Errorf("%s stays on the old primary: %d tries, the last: %v", round, len(raw), err)
					}
					if len(raw) > 1 {
						t.Errorf("%s failed %d times before a connection to the new primary was used: %v", round, len(raw), raw)
					}
					if n := w.noted(t, 1-i, strategy.String()+round); n != 1 {
						t.Errorf("%d effects on the new primary", n)
					}
					_ = lease.Release(patient(t))
				}
			})
		}
	})
}

// TestStartDuringASwitch: a program whose first connection reaches the server that is
// not the primary yet waits for the switch. Check says at once what is wrong.
func TestStartDuringASwitch(t *testing.T) {
	onTwins(t, func(t *testing.T, w *twins) {
		for _, strategy := range []Strategy{VersionColumn, UniqueInsert, SelectForUpdate} {
			t.Run(strategy.String(), func(t *testing.T) {
				w.both[0].readOnly(t, true)
				w.at.server.Store(&w.both[0].addr)
				l := &lab{t: t, kind: w.kind, config: w.config, strategy: strategy}
				s := l.bare()
				p := l.programOn(t, s, rowlock.Options{})
				ctx := patient(t)
				refused(t, s.Check(ctx), driver.ErrNotSupported, true, "read-only", "primary")
				_, err := s.Acquire(ctx, []driver.Request{request("a", time.Minute)})
				refused(t, err, nil, false, "read-only", "primary")
				if !driver.IsNotApplied(err) {
					t.Errorf("%v: not proven to have changed nothing", err)
				}
				got := make(chan error)
				go func() {
					_, err := p.Client.Acquire(ctx, "b")
					got <- err
				}()
				before := s.Statements()
				eventually(t, "the waiter has tried", func() bool { return s.Statements() > before+10 })
				w.to(t, 1)
				if err := <-got; err != nil {
					t.Errorf("the first use, with the address leading to the primary again: %v", err)
				}
				must(t, s.Check(ctx))
			})
		}
	})
}

// TestP27_FirstUseOfAReadOnlyServer: the first check finds a server that is read-only. The connections that were opened beside it
// lead there too, and are closed: a user who may write there all the same would get leases on a server that is no primary.
func TestP27_FirstUseOfAReadOnlyServer(t *testing.T) {
	onTwins(t, func(t *testing.T, w *twins) {
		admin, err := mysql.ParseDSN(w.both[0].DSN())
		must(t, err)
		config := w.config.Clone()
		config.User, config.Passwd = admin.User, admin.Passwd
		for _, strategy := range []Strategy{VersionColumn, UniqueInsert, SelectForUpdate} {
			t.Run(strategy.String(), func(t *testing.T) {
				w.to(t, 0)
				w.both[0].readOnly(t, true)
				l := &lab{t: t, kind: w.kind, config: config, strategy: strategy}
				s := l.bare()
				_, err := s.Acquire(patient(t), []driver.Request{request("a", time.Minute)})
				refused(t, err, nil, false, "read-only", "primary")
				s.db.Background.Wait()
				w.leave(t)
				client{t: t, Store: s}.granted("a", time.Minute)
				if w.lives(t, 0, l.table(), "a") || !w.lives(t, 1, l.table(), "a") {
					t.Error("P27: it was granted on the server that is read-only")
				}
			})
		}
	})
}

// TestKillOnGalera: a node answers a statement that KILL QUERY ended as if it were a
// conflict between nodes (1213), not as interrupted (1317).
func TestKillOnGalera(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, l *lab) {
		l.store()
		asGalera := l.firewall().conflictsFor("\xff\x25\x05#70100")
		c := client{t: t, Store: l.bare()}
		c.release(c.granted("a", time.Minute)) // a row, which UniqueInsert has removed
		c.granted("b", time.Millisecond)
		eventually(t, "the hold is over", func() bool { return !c.inspect("b").Held })
		end := lockRow(l, "b")
		eventually(t, "a statement is ended by KILL QUERY", func() bool {
			c.near()
			c.wants("P8: a key whose row a stranger has locked", c.acquire(request("b", time.Minute))[0].Status, driver.Pinned)
			return asGalera.Load() > 0
		})
		end()
		c.granted("b", time.Minute)
	})
}
