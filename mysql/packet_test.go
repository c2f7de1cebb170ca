package mysqllock

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/testserver"
	"github.com/rowlock/rowlock/mysql/internal/conn"
)

// longKey is a key of 252 bytes.
func longKey(i int) string { return fmt.Sprintf("%04d%s", i, strings.Repeat("k", 248)) }

// eachPacket runs f on servers of its own that allow packets of that size.
func eachPacket(t *testing.T, size string, f func(t *testing.T, l *lab)) {
	t.Helper()
	for _, kind := range testserver.Some(t, testserver.MySQL, testserver.MariaDB) {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			server := testserver.Start(t, kind, "--max-allowed-packet="+size)
			for _, strategy := range []Strategy{VersionColumn, UniqueInsert} {
				t.Run(strategy.String(), func(t *testing.T) { f(t, newLabAt(t, kind, server.DSN(), strategy)) })
			}
		})
	}
}

// TestP26_SmallPackets: a thousand leases of long keys, whose renewal would be one
// statement of more than a megabyte, live on a server that takes less.
func TestP26_SmallPackets(t *testing.T) {
	t.Parallel()
	for _, size := range []string{"1M", "256K"} {
		t.Run(size, func(t *testing.T) {
			t.Parallel()
			eachPacket(t, size, func(t *testing.T, l *lab) {
				const leases, ttl = 1000, 20 * time.Second // time for the large statements of a busy machine
				busy := premise(t, l)
				c, lost := keepAlive(t, l.store(), leases, longKey, ttl)
				for end := time.Now().Add(2 * ttl); c.Stats().Renewals < leases && time.Now().Before(end); {
					conn.Sleep(t.Context(), 50*time.Millisecond)
				}
				noneLost(t, lost(), leases, ttl, busy())
			})
		})
	}
}

// TestLargeBatches: every step of a batch that is larger than a packet may be, where
// the server says how large that is, where only the DSN knows, and where something in
// between takes less than both say.
func TestLargeBatches(t *testing.T) {
	t.Parallel()
	eachPacket(t, "256K", func(t *testing.T, l *lab) {
		for name, parameters := range map[string][]string{"server": nil, "dsn": {"maxAllowedPacket=100000"}, "between": nil} {
			s := l.store(parameters...)
			c := client{t: t, Store: s}
			if name == "between" {
				for _, lane := range []*conn.Pool{s.db.Acquires, s.db.Renewals, s.db.Releases, s.db.Control} {
					c, err := lane.Get(t.Context())
					must(t, err)
					c.Packet = 1 << 30 // the server refuses what is too large
					c.Put()
				}
			}
			reqs := make([]driver.Request, 1000)
			holds := make([]driver.Hold, len(reqs))
			keys := make([]string, len(reqs))
			for i := range reqs {
				keys[i] = name[:1] + longKey(i)
				reqs[i] = request(keys[i], time.Minute)
			}
			if name == "between" {
				// The server closes the connection, so its answer may get lost; one that
				// arrives is enough.
				eventually(t, "it is known what is too large", func() bool {
					_, err := s.Acquire(patient(t), reqs)
					return err == nil
				})
				for i := range reqs {
					keys[i] = "a" + reqs[i].Key
					reqs[i] = request(keys[i], time.Minute)
				}
			}
			for i, r := range c.acquire(reqs...) {
				c.wants(name+": acquire", r.Status, driver.Granted)
				holds[i] = driver.Hold{Key: reqs[i].Key, ID: reqs[i].ID, Token: r.Token, Stored: r.Stored, TTL: time.Minute}
			}
			for _, r := range c.renew(holds...) {
				c.wants(name+": renew", r.Status, driver.Alive)
			}
			infos, err := s.Inspect(patient(t), keys)
			must(t, err)
			for _, i := range infos {
				if !i.Held {
					t.Fatalf("%s: inspect: %q is not held", name, i.Key)
				}
			}
			for i := range reqs {
				reqs[i].ID = newID()
				reqs[i].Pinned = i%2 == 0
			}
			for _, r := range c.acquire(reqs...) {
				c.wants(name+": acquire of what is held", r.Status, driver.Held)
			}
			for i := range holds {
				holds[i].Undo = i%2 == 0
			}
			for _, r := range c.release(holds...) {
				c.wants(name+": release", r.Status, driver.Released)
			}
			must(t, s.Close())
		}
	})
}

// TestTinyPackets: where not even one key can be sent, Check says so.
func TestTinyPackets(t *testing.T) {
	t.Parallel()
	server := testserver.Start(t, testserver.MySQL, "--max-allowed-packet=2048")
	l := newLabAt(t, testserver.MySQL, server.DSN(), VersionColumn)
	refused(t, l.bare().Check(patient(t)), driver.ErrNotSupported, true, "max_allowed_packet", "2048")
}
