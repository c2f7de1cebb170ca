package mysqllock

import (
	"database/sql"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/internal/testserver"
	"github.com/rowlock/rowlock/mysql/internal/row"
)

// TestP26_AWaveOfReleases: two thousand leases with a short TTL are released at once.
// The client's other leases live on, because releases share their statements.
func TestP26_AWaveOfReleases(t *testing.T) {
	testserver.Long(t)
	each(t, func(t *testing.T, l *lab) {
		const wave, others, ttl = 2000, 100, 3 * time.Second
		store := l.store()
		c, err := rowlock.New(store, rowlock.Options{TTL: ttl, ReapInterval: -1})
		must(t, err)
		defer c.Close(t.Context())
		take := func(name string, n int) []*rowlock.Lease {
			leases := make([]*rowlock.Lease, n)
			var wg sync.WaitGroup
			for i := range leases {
				wg.Go(func() {
					var err error
					if leases[i], err = c.Acquire(patient(t), fmt.Sprint(name, i)); err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
			return leases
		}
		busy := premise(t, l)
		living, ending := take("stays", others), take("ends", wave)
		if t.Failed() {
			return
		}
		before := store.Statements()
		var wg sync.WaitGroup
		for _, lease := range ending {
			wg.Go(func() { lease.Release(t.Context()) })
		}
		wg.Wait()
		if n := store.Statements() - before; n > wave/4 {
			t.Errorf("%d statements for %d releases", n, wave)
		}
		time.Sleep(ttl) // who was not renewed meanwhile is lost
		lost := 0
		for _, lease := range living {
			if lease.Err() != nil {
				lost++
			}
		}
		noneLost(t, lost, others, ttl, busy())
	})
}

// noneLost is an error if a lease was lost, but where the premise did not hold.
func noneLost(t *testing.T, lost, of int, ttl time.Duration, on machine) {
	t.Helper()
	if lost > 0 {
		p26(t, fmt.Errorf("%d of %d leases lost", lost, of), ttl, on)
	}
}

// p26 reports what went wrong with leases of that TTL, if the promise's premise held.
func p26(t *testing.T, err error, ttl time.Duration, on machine) {
	t.Helper()
	switch {
	case err == nil:
	case on.write > ttl/6, on.late > ttl/10:
		t.Logf("%v, on a machine %v", err, on)
	default:
		t.Errorf("P26: %v, on a machine %v", err, on)
	}
}

// machine is how busy server and processor were.
type machine struct {
	write time.Duration // the longest that another program needed for a write of one row on a new connection
	late  time.Duration // the latest that this program got the processor
}

func (m machine) String() string {
	return fmt.Sprintf("where a write of one row took up to %v, and the processor came up to %v late", m.write, m.late)
}

// premise watches what P26 asks for, a server that commits and a processor, until the
// returned function is called.
func premise(t *testing.T, l *lab) func() machine {
	testserver.Long(t)
	l.store() // makes the tables
	config := l.config.Clone()
	write := fmt.Sprintf("INSERT INTO %s (name,hold,owner,token,acquired_at,expires_at) VALUES ('premise',x'%032x','a',1,%[3]s,%[3]s) ON DUPLICATE KEY UPDATE owner=IF(owner='a','b','a')", l.table(), 1, row.Epoch)
	end := make(chan struct{})
	watch := func(most *time.Duration, every time.Duration, look func() time.Duration) func() {
		return func() {
			for {
				*most = max(*most, look())
				select {
				case <-end:
					return
				case <-time.After(every):
				}
			}
		}
	}
	var m machine
	var both sync.WaitGroup
	both.Go(watch(&m.write, 10*time.Millisecond, func() time.Duration {
		began := time.Now()
		db, err := sql.Open("mysql", config.FormatDSN())
		if err == nil {
			_, _ = db.Exec(write)
			_ = db.Close()
		}
		return time.Since(began)
	}))
	both.Go(watch(&m.late, 0, func() time.Duration {
		const nap = 5 * time.Millisecond
		due := time.Now().Add(nap)
		time.Sleep(nap)
		return time.Since(due)
	}))
	stop := sync.OnceFunc(func() { close(end); both.Wait() })
	t.Cleanup(stop)
	return func() machine { stop(); return m }
}
