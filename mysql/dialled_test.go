package mysqllock

import (
	"context"
	"crypto/rand"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/internal/testserver"
)

// leftOf takes n connections out of a pool and leaves each so. What only one session can have, or what bars the others, has only
// the last of them, which the pool hands out first.
func leftOf(t *testing.T, db *sql.DB, n int, s sessionState) (all []*sql.Conn) {
	t.Helper()
	db.SetMaxIdleConns(n)
	for i := range n {
		c, err := db.Conn(t.Context())
		must(t, err)
		all = append(all, c)
		for _, text := range s.statements {
			if s.one && i < n-1 || strings.Contains(text, "gtid_next") {
				continue
			}
			_, err := c.ExecContext(t.Context(), text)
			must(t, err)
		}
	}
	return all
}

// numbersOf are the numbers of the sessions, as the server has them.
func numbersOf(t *testing.T, all []*sql.Conn) (ids []int) {
	t.Helper()
	for _, c := range all {
		var id int
		must(t, c.QueryRowContext(t.Context(), "SELECT ID FROM information_schema.PROCESSLIST WHERE INFO LIKE '%"+rand.Text()+"%'").Scan(&id))
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

func giveBack(t *testing.T, all []*sql.Conn) {
	t.Helper()
	for _, c := range all {
		must(t, c.Close())
	}
}

// TestSessionsThatAreLeftSo: whoever used the connections of a pool before left all that are idle so. None is used, and all are in
// the pool afterwards as they were.
func TestSessionsThatAreLeftSo(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, l *lab) {
		l.store()
		other := l.otherSchema(t)
		clean := l.over(t, l.poolOf(t))
		list := append(states(), set("completion_type=1"), set("timestamp=UNIX_TIMESTAMP()+86400"), set("pseudo_thread_id=1"),
			sessionState{name: "a table is locked", statements: []string{"FLUSH TABLES left_there WITH READ LOCK"}, one: true})
		for _, v := range variables() {
			if v.refused != "" {
				list = append(list, v)
			}
		}
		for n, s := range statesOn(l, other, list...) {
			t.Run(s.name, func(t *testing.T) {
				db := l.poolOf(t)
				all := leftOf(t, db, 5, s)
				before := numbersOf(t, all)
				giveBack(t, all)
				p := l.over(t, db)
				l.agree(t, fmt.Sprint("k", n), p, clean)
				l.agree(t, fmt.Sprint("l", n), clean, p)
				l.transact(t, fmt.Sprint("m", n), p)
				eventually(t, "all connections of before are idle", func() bool { return db.Stats().Idle == len(all) })
				all = leftOf(t, db, 5, sessionState{})
				if after := numbersOf(t, all); !slices.Equal(before, after) {
					t.Errorf("the pool has sessions %v, and had %v", after, before)
				}
				giveBack(t, all)
			})
		}
		var rows int
		must(t, l.db.QueryRow("SELECT COUNT(*) FROM left_there").Scan(&rows))
		if rows != 0 {
			t.Error("P14: an open transaction of the program was committed")
		}
	})
}

// transact asks for what is done with data beside the lock.
func (l *lab) transact(t *testing.T, key string, p program) {
	t.Helper()
	ctx := patient(t)
	lease, err := p.Client.Acquire(ctx, key)
	must(t, err)
	nothing := func(context.Context, *sql.Tx) error { return nil }
	must(t, p.InTx(ctx, lease, nothing))
	must(t, p.Once(ctx, lease, "run", nothing))
	if err := p.Once(ctx, lease, "run", nothing); !errors.Is(err, rowlock.ErrAlreadyRan) {
		t.Errorf("P13: the run is done again: %v", err)
	}
	tx, err := l.db.BeginTx(ctx, nil)
	must(t, err)
	must(t, p.LockTx(ctx, tx, key))
	must(t, tx.Rollback())
	if _, err := p.Store.ForceRelease(ctx, key); err != nil {
		t.Errorf("ForceRelease: %v", err)
	}
	if err := lease.Release(ctx); err != nil && !errors.Is(err, rowlock.ErrLost) {
		t.Error(err)
	}
}

// loseAll ends the connections of a Store on the pool, as a failover does: it knows where its tables are and has none left.
func (p program) loseAll(t *testing.T, db *sql.DB) {
	t.Helper()
	p.Store.db.Moved()
	eventually(t, "its connections are closed", func() bool { return db.Stats().InUse == 0 })
}

// cycleWaits begins a lease cycle of a key, and returns when it waits for a connection of the pool.
func (p program) cycleWaits(t *testing.T, db *sql.DB, key string) (answer chan error) {
	t.Helper()
	before := db.Stats().WaitCount
	answer = make(chan error, 1)
	go func() {
		lease, err := p.Client.Acquire(patient(t), key)
		if err == nil {
			err = lease.Release(t.Context())
		}
		answer <- err
	}()
	eventually(t, "the Store waits for a connection", func() bool { return db.Stats().WaitCount > before })
	return answer
}

// TestP1_PoolThatIsUsedUp: a program uses all connections of its pool and has led each to another database. What it gives back is
// not used, whether the Store is new or has lost its connections.
func TestP1_PoolThatIsUsedUp(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, l *lab) {
		l.store()
		other := l.otherSchema(t)
		clean := l.over(t, l.poolOf(t))
		for name, db := range map[string]*sql.DB{"": l.poolOf(t), ", which drops the context": l.poolThatDropsTheContext(t)} {
			t.Run("the dialler"+name, func(t *testing.T) {
				p := l.over(t, db)
				for _, state := range []string{"new", "lost"} {
					db.SetMaxOpenConns(0)
					used := leftOf(t, db, 20, sessionState{statements: []string{"USE " + other, "LOCK TABLES rowlock_run READ"}})
					db.SetMaxOpenConns(len(used))
					key := fmt.Sprint(state, len(name))
					answer := p.cycleWaits(t, db, key)
					giveBack(t, used)
					must(t, <-answer)
					l.agree(t, key+"a", p, clean)
					l.agree(t, key+"b", clean, p)
					p.loseAll(t, db)
				}
			})
		}
	})
}

// TestP14_TablesThatAUsedUpPoolLocks: a program that uses all of its pool gives one connection back, in which the lock tables are
// locked. The Store has lost its connections and takes it; the tables are free for others then.
func TestP14_TablesThatAUsedUpPoolLocks(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, l *lab) {
		l.store()
		clean := l.over(t, l.poolOf(t))
		db := l.poolOf(t)
		p := l.over(t, db)
		l.agree(t, "k", p, clean)
		p.loseAll(t, db)
		used := leftOf(t, db, 20, sessionState{statements: []string{"LOCK TABLES " + strings.Join(newNames(defaultPrefix).all(), " WRITE,") + " WRITE"}, one: true})
		db.SetMaxOpenConns(len(used))
		answer := p.cycleWaits(t, db, "l")
		giveBack(t, used[19:]) // the Store has it at once
		giveBack(t, used[:19])
		must(t, <-answer)
		lease, err := clean.Client.Acquire(within(t, time.Minute), "m")
		if err != nil {
			t.Fatalf("P14: the tables are still locked: %v", err)
		}
		must(t, lease.Release(t.Context()))
	})
}

// TestUsedUpPoolWithoutDials: connections of a program that uses all of its pool go from hand to hand, and none is dialled. A Store
// that lost its connections has one of them, as it needs it.
func TestUsedUpPoolWithoutDials(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, l *lab) {
		l.store()
		clean := l.over(t, l.poolOf(t))
		db := l.poolOf(t)
		p := l.over(t, db)
		l.agree(t, "k", p, clean)
		p.loseAll(t, db)
		db.SetMaxOpenConns(20)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var work sync.WaitGroup
		defer work.Wait()
		for range 60 {
			work.Go(func() {
				for ctx.Err() == nil {
					_, _ = db.ExecContext(ctx, "SET timestamp=1000000000, character_set_client=latin1, sql_select_limit=1, pseudo_thread_id=CONNECTION_ID()")
				}
			})
		}
		l.agree(t, "l", p, clean)
		l.agree(t, "m", clean, p)
		cancel()
	})
}

// poolThatDropsTheContext is a pool with a dialler of the program's, which does not hand on the context.
func (l *lab) poolThatDropsTheContext(t *testing.T) *sql.DB {
	t.Helper()
	config := l.config.Clone()
	config.DialFunc = func(_ context.Context, network, address string) (net.Conn, error) { return net.Dial(network, address) }
	connector, err := mysql.NewConnector(config)
	must(t, err)
	db := sql.OpenDB(connector)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// TestDiallerThatDropsTheContext: what nobody sees being dialled is known by its number.
func TestDiallerThatDropsTheContext(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, l *lab) {
		l.store()
		other := l.otherSchema(t)
		clean := l.over(t, l.poolOf(t))
		db := l.poolThatDropsTheContext(t)
		giveBack(t, leftOf(t, db, 5, sessionState{statements: []string{"USE " + other, "SET pseudo_thread_id=100000000"}}))
		p := l.over(t, db)
		l.agree(t, "k", p, clean)
		l.agree(t, "l", clean, p)
		l.transact(t, "m", p)
	})
}

// sharedSessions hands out sessions that were there before, as a proxy does that shares them.
type sharedSessions struct {
	sqldriver.Connector
	before chan sqldriver.Conn
}

func (c sharedSessions) Connect(context.Context) (sqldriver.Conn, error) { return <-c.before, nil }

// TestP1_SharedSessions: where nothing shows that a connection was dialled, the pool is refused, in words that say what to do.
func TestP1_SharedSessions(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, l *lab) {
		l.store()
		connector, err := mysql.NewConnector(l.config.Clone())
		must(t, err)
		shared := sharedSessions{connector, make(chan sqldriver.Conn, 20)}
		for range cap(shared.before) {
			c, err := connector.Connect(t.Context())
			must(t, err)
			shared.before <- c
		}
		db := sql.OpenDB(shared)
		defer db.Close()
		s, err := New(db, l.options())
		must(t, err)
		defer s.Close()
		err = s.Check(patient(t))
		if err == nil || !strings.Contains(err.Error(), "Use Open") {
			t.Errorf("%v, want an error that says what to use", err)
		}
	})
}

// TestInitConnect: what the server does first on each connection of an ordinary user does not reach the library's statements.
func TestInitConnect(t *testing.T) {
	for _, kind := range testserver.Some(t, testserver.MySQL, testserver.MariaDB) {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			server := testserver.Start(t, kind)
			for _, strategy := range testserver.Some(t, VersionColumn, UniqueInsert, SelectForUpdate) {
				t.Run(strategy.String(), func(t *testing.T) {
					l := newLabAt(t, kind, server.DSN(), strategy)
					l.store()
					other := l.otherSchema(t)
					user := "u" + l.config.DBName[2:]
					exec(t, l.db, "CREATE USER "+user+"@'%' IDENTIFIED BY 'pw'")
					exec(t, l.db, "GRANT SELECT, INSERT, UPDATE, DELETE, CREATE TEMPORARY TABLES, LOCK TABLES ON *.* TO "+user+"@'%'")
					as := *l
					as.config = l.config.Clone()
					as.config.User, as.config.Passwd = user, "pw"
					clean := l.over(t, l.poolOf(t))
					list := []sessionState{
						{name: "an open transaction", statements: []string{"START TRANSACTION"}},
						{name: "an open transaction at another isolation", statements: []string{"SET TRANSACTION ISOLATION LEVEL SERIALIZABLE, READ ONLY", "START TRANSACTION"}},
						{name: "a snapshot", statements: []string{"START TRANSACTION WITH CONSISTENT SNAPSHOT"}},
						{name: "a transaction begun by a statement", statements: []string{"SET autocommit=0", "INSERT INTO DB.left_there VALUES (RAND()*1000000000)"}},
						{name: "a chain of transactions", statements: []string{"SET completion_type=1", "START TRANSACTION", "COMMIT"}},
						{name: "the next transaction is read-only", statements: []string{"SET TRANSACTION READ ONLY"}},
						{name: "tables are locked", statements: []string{"LOCK TABLES DB.left_there READ"}, refused: "LOCK TABLES"},
						{name: "another default database", statements: []string{"USE OTHER"}, refused: "default database is"},
					}
					for n, s := range statesOn(l, other, list...) {
						t.Run(s.name, func(t *testing.T) {
							text := strings.ReplaceAll(strings.Join(s.statements, ";"), "DB.", l.config.DBName+".")
							_, err := l.db.Exec("SET GLOBAL init_connect=?", text)
							must(t, err)
							defer exec(t, l.db, "SET GLOBAL init_connect=''")
							s2, err := Open(as.dsn(), l.options())
							must(t, err)
							t.Cleanup(func() { _ = s2.Close() })
							p := l.programOn(t, s2, rowlock.Options{TTL: 20 * time.Second})
							if s.refused != "" {
								if _, err := p.TryAcquire(patient(t), "refused"); err == nil || errors.Is(err, rowlock.ErrHeld) || !strings.Contains(err.Error(), s.refused) {
									t.Errorf("%v, want an error that names %s", err, s.refused)
								}
								return
							}
							l.agree(t, fmt.Sprint("k", n), p, clean)
							l.transact(t, fmt.Sprint("l", n), p)
							l.agree(t, fmt.Sprint("m", n), l.over(t, as.poolOf(t)), clean)
						})
					}
					var rows int
					must(t, l.db.QueryRow("SELECT COUNT(*) FROM left_there").Scan(&rows))
					if rows != 0 {
						t.Error("what init_connect left open was committed")
					}
				})
			}
		})
	}
}
