package mysqllock

import (
	"context"
	"errors"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/testserver"
)

// TestCallEndsWithItsContext: on a frozen server each call returns when its context
// ends, for whatever reason, on the Store's own connections and on the caller's.
func TestCallEndsWithItsContext(t *testing.T) {
	testserver.Long(t)
	t.Parallel()
	const ends = 100 * time.Millisecond
	contexts := []struct {
		name string
		make func() (context.Context, context.CancelFunc)
		want error
	}{
		{"time-out", func() (context.Context, context.CancelFunc) {
			return context.WithTimeout(context.Background(), ends)
		}, context.DeadlineExceeded},
		{"cancel", func() (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(context.Background())
			time.AfterFunc(ends, cancel)
			return ctx, cancel
		}, context.Canceled},
	}
	server := testserver.Start(t, testserver.MySQL)
	l := newLabAt(t, testserver.MySQL, server.DSN(), UniqueInsert)
	own := l.store()
	pooled, err := New(l.open(l.config), Options{Strategy: l.strategy})
	must(t, err)
	defer pooled.Close()
	for name, s := range map[string]*Store{"own": own, "pool": pooled} {
		c := client{t: t, Store: s}
		for _, way := range contexts {
			n := 0
			key := func(name string) string { n++; return fmt.Sprint(name, " ", n) }
			h := c.granted(key("a"), time.Minute)
			for step, do := range map[string]func(context.Context) error{
				"acquire": func(ctx context.Context) error {
					_, err := s.Acquire(ctx, []driver.Request{request("b", time.Minute)})
					return err
				},
				"release": func(ctx context.Context) error { _, err := s.Release(ctx, []driver.Hold{h}); return err },
				"inspect": func(ctx context.Context) error { _, err := s.Inspect(ctx, []string{"a"}); return err },
			} {
				best(t, fmt.Sprintf("%s, %s, %s: it took", name, way.name, step), ends+300*time.Millisecond, func() time.Duration {
					c.wants("renew", c.renew(h)[0].Status, driver.Alive) // the connections live
					c.inspect("a")
					other := c.granted(key("c"), time.Minute)
					server.Pause()
					ctx, cancel := way.make()
					start := time.Now()
					err := do(ctx)
					took := time.Since(start)
					cancel()
					server.Resume()
					if !errors.Is(err, way.want) {
						t.Errorf("%s, %s, %s: %v", name, way.name, step, err)
					}
					if driver.IsNotApplied(err) && step != "inspect" { // it was not sent in time
						took = time.Hour
					}
					c.release(other)
					if step == "release" { // the server may have run it
						h = c.granted(key("a"), time.Minute)
					}
					return took
				})
			}
			exec(t, l.db, "DELETE FROM "+l.table())
		}
	}
}

// TestRegisteredNetworkIsDialled by the driver's function: the Store does not know the
// network connection.
func TestRegisteredNetworkIsDialled(t *testing.T) {
	t.Parallel()
	l := newLab(t, testserver.MySQL, VersionColumn)
	l.store()
	network := "net" + l.config.DBName
	dialled := make(chan struct{}, 100)
	mysql.RegisterDialContext(network, func(ctx context.Context, address string) (net.Conn, error) {
		dialled <- struct{}{}
		return new(net.Dialer).DialContext(ctx, "tcp", address)
	})
	config := l.config.Clone()
	config.Net = network
	s, err := Open(config.FormatDSN(), Options{})
	must(t, err)
	defer s.Close()
	c := client{t: t, Store: s}
	c.release(c.granted("a", time.Minute))
	if len(dialled) == 0 {
		t.Error("the registered function was not called")
	}
	for _, conn := range s.db.Acquires.Idle() {
		if conn.KnowsNet() {
			t.Error("the network connection of a registered network is not ours to close")
		}
	}
}
