package mysqllock

import (
	"context"
	"fmt"
	"net"
	"regexp"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/mysql/internal/conn"
)

// plainCost is what an uncontended lease costs: one cycle of acquire and release, and one with
// a renewal between.
type plainCost struct {
	statements, renewed         int
	sentBytes, renewedSentBytes int64 // by prepared statements, of a key of 13 and an owner of 11 bytes
	text, renewedText           int   // bytes of the statements where they are not prepared
}

// serverRun is what SelectForUpdate writes more since its lease row names the run of the server (P2 after a
// failover): it reads the server's name and start, and writes both, the name four times. It has nothing to do with read locks.
func (l *lab) serverRun() (sentBytes int64, text int) {
	var name string
	must(l.t, l.db.QueryRow("SELECT COALESCE(/*!80000 @@server_uuid, */ "+conn.ServerName+")").Scan(&name))
	return int64(37 + 4*len(name)), 252 + 4*len(name)
}

// plainCosts were measured with the last version that had exclusive holds only.
// The text of VersionColumn and UniqueInsert was measured when lines had come and hints had gone. Their acquire sends 7 bytes
// more since it has the terms of an entry in the line, instead of a hint.
var plainCosts = map[Strategy]plainCost{
	VersionColumn:   {2, 3, 232, 322, 1260, 1499},
	UniqueInsert:    {3, 4, 312, 402, 1433, 1671},
	SelectForUpdate: {4, 5, 469, 549, 858, 933},
}

// TestP25_PlainCost: a plain lease costs as many statements, and as many bytes, as before
// there were read locks and slots.
func TestP25_PlainCost(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, l *lab) {
		want := plainCosts[l.strategy]
		if l.strategy == SelectForUpdate {
			sent, text := l.serverRun()
			want.sentBytes, want.renewedSentBytes = want.sentBytes+sent, want.renewedSentBytes+sent
			want.text, want.renewedText = want.text+text, want.renewedText+text
		}
		l.store() // makes the tables
		var sent atomic.Int64
		locks := l.metered(t, &sent)
		cycle := func(renew bool) (statements int, bytes int64) {
			before, from := locks.Stats().Statements, sent.Load()
			ctx := patient(t)
			lease, err := locks.Acquire(ctx, "the-plain-key")
			must(t, err)
			if renew {
				must(t, lease.Renew(ctx))
			}
			must(t, lease.Release(ctx))
			return int(locks.Stats().Statements - before), sent.Load() - from
		}
		for _, renew := range []bool{false, true} {
			statements, bytes := want.statements, want.sentBytes
			if renew {
				statements, bytes = want.renewed, want.renewedSentBytes
			}
			// A busy server may make a cycle send more, by a look at what takes long.
			var gotStatements int
			var gotBytes int64
			for n := 0; n < 50 && (gotStatements != statements || gotBytes != bytes); n++ {
				gotStatements, gotBytes = cycle(renew)
			}
			if gotStatements != statements || gotBytes != bytes {
				t.Errorf("renewed %v: %d statements of %d bytes, want %d of %d", renew, gotStatements, gotBytes, statements, bytes)
			}
		}
		if cycle, renewed := l.plainText(t, want); cycle != want.text || renewed != want.renewedText {
			t.Errorf("not prepared: %d bytes, with a renewal %d, want %d and %d", cycle, renewed, want.text, want.renewedText)
		}
	})
}

// metered is a client whose connections count what they send.
func (l *lab) metered(t *testing.T, sent *atomic.Int64) *rowlock.Client {
	t.Helper()
	network := fmt.Sprintf("metered-%p", sent)
	own := l.config.Clone()
	mysql.RegisterDialContext(network, func(ctx context.Context, address string) (net.Conn, error) {
		c, err := new(net.Dialer).DialContext(ctx, l.config.Net, address)
		return meteredConn{c, sent}, err
	})
	own.Net = network
	s, err := Open(own.FormatDSN(), l.options())
	must(t, err)
	s.db.KeepAfter = 0
	t.Cleanup(func() { _ = s.Close() })
	return l.programOn(t, s, rowlock.Options{Owner: "the-owner:1"}).Client
}

type meteredConn struct {
	net.Conn
	sent *atomic.Int64
}

func (c meteredConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.sent.Add(int64(n))
	return n, err
}

// connID has as many digits as the server has had connections.
var connID = regexp.MustCompile(`conn_id=\d+`)

// plainText is how many bytes the statements of a cycle have, and of one with a renewal, for a
// key of 13 bytes. It tries a few times for what is wanted: see above.
func (l *lab) plainText(t *testing.T, want plainCost) (cycle, renewed int) {
	t.Helper()
	rec := new(recorder)
	c := client{t: t, Store: l.recorded(rec)}
	run := func(renew bool) (n int) {
		q := request("the-plain-key", time.Minute)
		h := c.grant(q)
		if renew {
			c.wants("renewal", c.renew(h)[0].Status, driver.Alive)
		}
		c.release(h)
		for _, s := range rec.take() {
			n += len(connID.ReplaceAllString(s, "conn_id=0"))
		}
		return n
	}
	run(true) // the connections are there, and the row
	for n := 0; n < 10 && cycle != want.text; n++ {
		cycle = run(false)
	}
	for n := 0; n < 10 && renewed != want.renewedText; n++ {
		renewed = run(true)
	}
	return cycle, renewed
}
