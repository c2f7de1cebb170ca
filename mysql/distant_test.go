package mysqllock

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/testserver"
	"github.com/rowlock/rowlock/mysql/internal/conn"
)

// distance is a proxy before a server that is far away: what goes through it arrives
// later by oneWay, in each direction.
type distance struct {
	addr   string
	server string
	oneWay atomic.Int64 // nanoseconds
	kills  atomic.Int64 // KILL QUERY statements; what ends a lost connection does not count

	mu   sync.Mutex
	told int // the longest chain of trips whose last answer has arrived
}

func newDistance(t testing.TB, server string, oneWay time.Duration) *distance {
	testserver.Long(t)
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	d := &distance{addr: listener.Addr().String(), server: server}
	d.oneWay.Store(int64(oneWay))
	var open sync.WaitGroup
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(func() {
		cancel()
		_ = listener.Close()
		open.Wait()
	})
	open.Go(func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return
			}
			open.Go(func() { d.serve(ctx, near) })
		}
	})
	return d
}

// load is bytes on their way.
type load struct {
	bytes []byte
	due   time.Time
}

// serve carries one connection. To connect is a trip, and so is each request.
func (d *distance) serve(ctx context.Context, near net.Conn) {
	trip := atomic.Int64{}
	trip.Store(d.next())
	far, err := net.Dial("tcp", d.server)
	if err != nil {
		_ = near.Close()
		return
	}
	defer context.AfterFunc(ctx, func() { _, _ = near.Close(), far.Close() })()
	var both sync.WaitGroup
	both.Go(func() {
		d.carry(near, far, func(b []byte) {
			trip.Store(d.next())
			d.kills.Add(int64(bytes.Count(b, []byte("\x03KILL QUERY "))))
		}, func() {})
	})
	both.Go(func() {
		d.carry(far, near, func([]byte) {}, func() {
			d.mu.Lock()
			d.told = max(d.told, int(trip.Load()))
			d.mu.Unlock()
		})
	})
	both.Wait()
}

// next is the number of a trip that begins now in the longest chain.
func (d *distance) next() int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return int64(d.told) + 1
}

// trips is the length of the longest chain of trips since the last time.
func (d *distance) trips() (n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	n, d.told = d.told, 0
	return n
}

func (d *distance) carry(from, to net.Conn, sent func([]byte), arrives func()) {
	loads := make(chan load, 1000)
	go func() {
		defer close(loads)
		for {
			b := make([]byte, 64<<10)
			n, err := from.Read(b)
			if n > 0 {
				sent(b[:n])
				loads <- load{b[:n], time.Now().Add(time.Duration(d.oneWay.Load()))}
			}
			if err != nil {
				return
			}
		}
	}()
	for l := range loads {
		time.Sleep(time.Until(l.due)) // the distance itself
		arrives()
		if _, err := to.Write(l.bytes); err != nil {
			break
		}
	}
	_, _ = to.Close(), from.Close()
	for range loads {
	}
}

// distant is a store of the lab, whose tables are there, that is far from its server.
func (l *lab) distant(roundTrip time.Duration) (*Store, *distance) {
	l.t.Helper()
	must(l.t, l.store().Close())
	d := newDistance(l.t, l.config.Addr, roundTrip/2)
	config := l.config.Clone()
	config.Net, config.Addr = "tcp", d.addr
	s, err := Open(config.FormatDSN(), l.options())
	must(l.t, err)
	l.t.Cleanup(func() { _ = s.Close() })
	return s, d
}

const farAway = 300 * time.Millisecond // a round trip between continents

// TestP26_DistantServer: at a round trip of 300 ms nothing is ended by KILL, a cycle
// costs the statements that it costs at home, keys that nobody has are granted, and
// leases live.
func TestP26_DistantServer(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, l *lab) {
		const ttl, kept, workers, cycles = 10 * time.Second, 8, 8, 5
		s, d := l.distant(farAway)
		busy := premise(t, l)
		_, lost := keepAlive(t, s, kept, func(i int) string { return fmt.Sprint("kept", i) }, ttl)
		c, err := rowlock.New(s, rowlock.Options{TTL: ttl})
		must(t, err)
		defer func() { must(t, c.Close(patient(t))) }()
		round := func(cycles int) {
			var wg sync.WaitGroup
			for w := range workers {
				wg.Go(func() {
					key := fmt.Sprint("key", w)
					for range cycles {
						lease, err := c.TryAcquire(patient(t), key)
						if err != nil {
							t.Errorf("TryAcquire of %q, which nobody else wants: %v", key, err)
							return
						}
						if err := lease.Release(patient(t)); err != nil {
							t.Errorf("Release of %q: %v", key, err)
						}
					}
				})
			}
			wg.Wait()
		}
		round(1) // opens the connections, and makes the rows
		each := map[Strategy]uint64{VersionColumn: 2, UniqueInsert: 3, SelectForUpdate: 4}[l.strategy]
		most := each * workers * cycles
		most += most / 4 // renewals and connections that are opened
		if l.strategy == SelectForUpdate {
			most = math.MaxUint64
		}
		best(t, fmt.Sprintf("statements for %d cycles", workers*cycles), most, func() uint64 {
			before := s.Statements()
			round(cycles)
			sent := s.Statements() - before
			t.Logf("%d statements for %d cycles", sent, workers*cycles)
			return sent
		})
		if n := d.kills.Load(); n > 0 {
			t.Errorf("%d statements were ended by KILL", n)
		}
		noneLost(t, lost(), kept, ttl, busy())
	})
}

// TestP15_DistantServer: a key whose row a stranger has locked gets an answer at a
// distance too, which the session's lock wait bounds.
func TestP15_DistantServer(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, l *lab) {
		s, d := l.distant(farAway)
		c := client{t: t, Store: s}
		h := c.granted("key", time.Minute)
		c.granted("other", time.Minute)
		l.age("key", time.Hour)
		end := l.lockRows("key")
		defer end()
		results, err := s.Acquire(patient(t), []driver.Request{request("key", time.Minute)})
		must(t, err)
		if r := results[0]; r.Status != driver.Pinned && r.Status != driver.Held && r.Err == nil {
			t.Errorf("acquire of a key whose row is locked: %v, want pinned", r.Status)
		}
		answers := c.renew(h)
		if r := answers[0]; r.Err == nil && r.Status == driver.Alive {
			t.Errorf("renewal of a key whose row is locked: %v", r.Status)
		}
		if n := d.kills.Load(); n > 0 {
			t.Errorf("%d statements were ended by KILL", n)
		}
	})
}

// TestP15_OpenedInABusyMoment: connections on which all answers were slow at first, and
// are not any more. A statement that is blocked on them is ended by KILL, as on others:
// on those of a new program, and the first one on a connection that was opened later.
func TestP15_OpenedInABusyMoment(t *testing.T) {
	testserver.Long(t)
	t.Parallel()
	each(t, func(t *testing.T, l *lab) {
		const busy = 3 * conn.FarTrip
		s, d := l.distant(busy)
		c := client{t: t, Store: s}
		c.granted("locked", time.Millisecond)
		c.cycle()

		d.oneWay.Store(0)
		eventually(t, "statements are answered fast", func() bool {
			c.cycle()
			return s.db.Bound(0) < conn.LockWait/4
		})
		defer l.lockRows("locked")()
		blocked := func() (killed bool) {
			before := d.kills.Load()
			c.wants("a key whose row a stranger has locked", c.acquire(request("locked", time.Minute))[0].Status, driver.Pinned)
			return d.kills.Load() > before
		}
		// More than once: on a busy machine the lock wait may end before the KILL is sent.
		eventually(t, "P15: a blocked statement, on connections that were opened while each answer was slow, is ended by KILL", blocked)

		eventually(t, "P15: the first statement on a connection that was opened while each answer was slow is ended by KILL", func() bool {
			s.db.Acquires.CloseIdle()
			d.oneWay.Store(int64(busy / 2))
			one, err := s.db.Acquires.Get(patient(t))
			must(t, err)
			d.oneWay.Store(0)
			one.Put()
			return blocked()
		})
	})
}

// TestFirstUseTrips: the first use of a store makes at most 12 trips one after the
// other. A busy server makes the Store ask more, and what goes on side by side late: of
// several stores the best counts.
func TestFirstUseTrips(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, l *lab) {
		const most, stores = 12, 5
		var trips []int
		for i := range stores {
			s, d := l.distant(farAway)
			d.trips()
			client{t: t, Store: s}.granted(fmt.Sprint("key", i), 10*time.Second)
			trips = append(trips, d.trips())
			if slices.Min(trips) <= most {
				break
			}
		}
		t.Log(trips, "trips")
		if slices.Min(trips) > most {
			t.Errorf("%d trips one after the other, want at most %d", trips, most)
		}
	})
}
