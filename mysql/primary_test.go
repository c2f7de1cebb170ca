package mysqllock

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/testserver"
	"github.com/rowlock/rowlock/locktest"
)

// clusterKinds are those on which everything that was acknowledged outlives a failover.
var clusterKinds = []string{testserver.MySQLSemiSync, testserver.MySQLGroup3, testserver.MariaDBGalera3}

// clusterLab is a cluster of the test's own, with the lock tables.
type clusterLab struct {
	t *testing.T
	*testserver.Server
	kind string
}

// clusters are those that run at a time: each is three servers.
var clusters = make(chan struct{}, 3)

func newClusterLab(t *testing.T, kind string) *clusterLab {
	t.Helper()
	clusters <- struct{}{}
	t.Cleanup(func() { <-clusters })
	l := &clusterLab{t, testserver.Start(t, kind), kind}
	s, err := Open(l.DSN(), Options{})
	must(t, err)
	defer s.Close()
	must(t, s.Migrate(patient(t)))
	return l
}

// open makes a Store on the members' addresses.
func (l *clusterLab) open(o Options) *Store {
	l.t.Helper()
	s, err := OpenPrimary(l.MemberDSNs(), o)
	must(l.t, err)
	l.t.Cleanup(func() { must(l.t, s.Close()) })
	return s
}

// client is a program's. Its TTL is longer than the test waits for anything.
func (l *clusterLab) client(s *Store) *rowlock.Client {
	l.t.Helper()
	return (&lab{t: l.t}).programOn(l.t, s, rowlock.Options{TTL: 2 * time.Minute}).Client
}

// lockAndCount takes a key, counts up the token under it, which must rise, and tells how long it took.
func (l *clusterLab) lockAndCount(c *rowlock.Client, key string, last *int64) {
	l.t.Helper()
	begin := time.Now()
	ctx := patient(l.t)
	lease, err := c.Acquire(ctx, key)
	if err != nil {
		l.t.Fatalf("P27: acquire %q: %v", key, err)
	}
	l.t.Logf("%q after %v", key, time.Since(begin).Round(time.Millisecond))
	if lease.Token() <= *last {
		locktest.Breach(l.t, "P3", "token %d of %q after %d", lease.Token(), key, *last)
	}
	*last = lease.Token()
	must(l.t, lease.Release(ctx))
}

// TestP27_OpenPrimary: a program that knows the members' addresses comes back by itself after each failover, whether the
// primary was switched, killed or frozen, keeps what it holds, and is not misled by an old primary that still answers.
func TestP27_OpenPrimary(t *testing.T) {
	testserver.Long(t)
	t.Parallel()
	for _, kind := range clusterKinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			l := newClusterLab(t, kind)
			clients := map[Strategy]*rowlock.Client{}
			leases := map[Strategy]*rowlock.Lease{}
			last := map[Strategy]*int64{}
			for _, strategy := range []Strategy{VersionColumn, UniqueInsert} {
				clients[strategy] = l.client(l.open(Options{Strategy: strategy}))
				last[strategy] = new(int64)
				var err error
				leases[strategy], err = clients[strategy].Acquire(patient(t), "held throughout")
				must(t, err)
			}
			var forUpdate *rowlock.Client
			if kind == testserver.MySQLSemiSync {
				forUpdate = l.client(l.open(Options{Strategy: SelectForUpdate}))
			}
			stages := 0
			after := func(what string) {
				t.Helper()
				t.Logf("--- %s; member %d takes writes", what, l.Primary())
				for strategy, c := range clients {
					l.lockAndCount(c, "counted", last[strategy])
					eventually(t, "a renewal was acknowledged", func() bool { // one may meet the end of a primary
						err := leases[strategy].Renew(patient(t))
						if err != nil && leases[strategy].Err() == nil {
							t.Log(err)
						}
						return err == nil || leases[strategy].Err() != nil
					})
					if err := leases[strategy].Err(); err != nil {
						t.Errorf("P26: %v: the lease that is held throughout: %v", strategy, err)
					}
				}
				if stages++; forUpdate != nil { // keys that were used within the last TTL come back after it
					l.lockAndCount(forUpdate, fmt.Sprint("never used before ", stages), new(int64))
				}
			}
			after("the beginning")
			if kind != testserver.MariaDBGalera3 { // whose nodes do not know of a switch
				l.Switch(1)
				after("a switch")
			}
			old := l.Primary()
			l.Kill(old)
			l.Promote()
			after("a kill")
			l.Rejoin(old)
			after("its return")

			old = l.Primary()
			l.Pause(old)
			l.Promote()
			after("a freeze")
			l.Resume(old)
			for range 3 {
				after("the thaw")
			}
			fresh := l.client(l.open(Options{}))
			l.lockAndCount(fresh, "counted", last[VersionColumn])
			l.Rejoin(old)
			after("its return")
		})
	}
}

// TestP27_OpenPrimaryOfOneThatLostItsReplicas: a semi-synchronous primary whose replicas were taken by another says of itself that
// it takes writes, and what is written there is never committed.
func TestP27_OpenPrimaryOfOneThatLostItsReplicas(t *testing.T) {
	testserver.Long(t)
	t.Parallel()
	l := newClusterLab(t, testserver.MySQLSemiSync)
	clients := map[Strategy]*rowlock.Client{}
	for _, strategy := range []Strategy{VersionColumn, UniqueInsert, SelectForUpdate} {
		clients[strategy] = l.client(l.open(Options{Strategy: strategy}))
		l.lockAndCount(clients[strategy], "a", new(int64))
	}
	old := l.Primary()
	l.Promote() // nobody stops the one before
	for strategy, c := range clients {
		t.Logf("--- %v; member %d takes writes after member %d", strategy, l.Primary(), old)
		l.lockAndCount(c, "never used before", new(int64))
	}
	fresh := l.client(l.open(Options{}))
	l.lockAndCount(fresh, "b", new(int64))
	l.Rejoin(old)
	l.lockAndCount(fresh, "b", new(int64))
}

// TestPrimaryDialer: a pool of the program's goes to the primary too, and statements that hang on the old one end.
func TestPrimaryDialer(t *testing.T) {
	testserver.Long(t)
	t.Parallel()
	l := newClusterLab(t, testserver.MySQLSemiSync)
	dialer, err := NewPrimaryDialer(l.MemberDSNs())
	must(t, err)
	network := "primary-" + strings.ReplaceAll(t.Name(), "/", "-")
	mysql.RegisterDialContext(network, dialer.DialContext)
	db, err := sql.Open("mysql", fmt.Sprintf("root:secret@%s(any)/test?rejectReadOnly=true", network))
	must(t, err)
	defer db.Close()
	exec(t, db, "CREATE TABLE notes (n INT PRIMARY KEY)")
	s, err := New(db, Options{})
	must(t, err)
	defer s.Close()
	c := l.client(s)
	last := new(int64)
	l.lockAndCount(c, "a", last)

	l.Switch(1)
	eventually(t, "a write on the new primary", func() bool {
		_, err := db.Exec("INSERT INTO notes VALUES (1)")
		return err == nil
	})
	l.lockAndCount(c, "a", last)

	at := l.Primary()
	hangs, err := db.Conn(patient(t))
	must(t, err)
	l.Pause(at)
	ended := make(chan error, 1)
	go func() {
		_, err := hangs.ExecContext(context.Background(), "INSERT INTO notes VALUES (2)")
		ended <- err
	}()
	l.Promote()
	l.lockAndCount(c, "a", last)
	if err := <-ended; err == nil {
		t.Error("a write on a frozen server was acknowledged")
	}
	_ = hangs.Close()
	l.Rejoin(at)
	must(t, s.Close())
	must(t, dialer.Close())
	must(t, dialer.Close())
	_, err = dialer.DialContext(patient(t), "any")
	if !errors.Is(err, rowlock.ErrClosed) {
		t.Errorf("a closed dialer: %v", err)
	}
}

// TestOpenPrimaryArguments: what cannot work is refused before anything is sent.
func TestOpenPrimaryArguments(t *testing.T) {
	const a, b = "u:p@tcp(127.0.0.1:1)/db", "u:p@tcp(127.0.0.1:2)/db"
	mysql.RegisterDialContext("another-network", func(context.Context, string) (net.Conn, error) { return nil, io.EOF })
	for _, c := range []struct {
		name string
		dsns []string
		text string
	}{
		{"none", nil, "no DSN"},
		{"an empty one", []string{a, ""}, "DSN 2 of 2"},
		{"one twice", []string{a, b, a}, "DSNs 1 and 3 both name 127.0.0.1:1"},
		{"two databases", []string{a, "u:p@tcp(127.0.0.1:2)/other"}, `DSN 1 names database "db", DSN 2 "other"`},
		{"another network", []string{a, "u:p@another-network(x)/db"}, `"another-network"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := OpenPrimary(c.dsns, Options{})
			refused(t, err, rowlock.ErrInvalid, false, c.text)
			_, err = NewPrimaryDialer(c.dsns)
			refused(t, err, rowlock.ErrInvalid, false, c.text)
		})
	}
	_, err := OpenPrimary([]string{a, b}, Options{Connections: 1})
	refused(t, err, rowlock.ErrInvalid, false, "Connections")
}

// TestOpenPrimaryNoPrimary: while no server takes writes the error names all of them, and is passing; a wrong password
// is not.
func TestOpenPrimaryNoPrimary(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, l *lab) {
		gone, err := net.Listen("tcp", "127.0.0.1:0")
		must(t, err)
		addr := gone.Addr().String()
		must(t, gone.Close())
		nobody := l.config.Clone()
		nobody.Addr = addr
		l.store()

		// One of the two is there, and takes writes: it serves.
		s, err := OpenPrimary([]string{nobody.FormatDSN(), l.config.FormatDSN()}, l.options())
		must(t, err)
		t.Cleanup(func() { must(t, s.Close()) })
		must(t, s.Check(patient(t)))

		// None is there.
		other := nobody.Clone()
		other.Addr = "127.0.0.1:1"
		s, err = OpenPrimary([]string{nobody.FormatDSN(), other.FormatDSN()}, l.options())
		must(t, err)
		t.Cleanup(func() { must(t, s.Close()) })
		err = inMoreTime(t, time.Second, func(ctx context.Context) error {
			_, err := s.Acquire(ctx, []driver.Request{request("a", time.Minute)})
			return err
		}, func(err error) bool {
			return err != nil && strings.Contains(err.Error(), addr) && strings.Contains(err.Error(), other.Addr)
		})
		refused(t, err, nil, false, addr, "127.0.0.1:1")
		if !driver.IsNotApplied(err) {
			t.Errorf("%v: not proven to have changed nothing", err)
		}

		wrong := l.config.Clone()
		wrong.Passwd = "wrong"
		s, err = OpenPrimary([]string{wrong.FormatDSN()}, l.options())
		must(t, err)
		t.Cleanup(func() { must(t, s.Close()) })
		refused(t, s.Check(patient(t)), nil, true, "password")
	})
}
