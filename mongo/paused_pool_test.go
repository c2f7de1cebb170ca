package mongolock

import (
	"context"
	"sync"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/rowlock/rowlock"
)

// clearing is a client whose pool is cleared by an error of another command at the moment at which a commit that is sent anew, for the first
// time by the Store and not by the driver, asks it for a connection.
type clearing struct {
	proxy  *proxy
	client *mongo.Client

	mu      sync.Mutex
	first   time.Time // when the commit was sent first
	begun   bool
	cleared chan struct{} // closed: the pool is paused
	refused chan struct{} // closed: the commit has found it so
}

func (c *clearing) options() *options.ClientOptions {
	return options.Client().
		SetMonitor(&event.CommandMonitor{Started: func(_ context.Context, e *event.CommandStartedEvent) {
			c.mu.Lock()
			defer c.mu.Unlock()
			if e.CommandName == "commitTransaction" && c.first.IsZero() {
				c.first = time.Now()
			}
		}}).
		SetPoolMonitor(&event.PoolMonitor{Event: c.event})
}

func (c *clearing) event(e *event.PoolEvent) {
	c.mu.Lock()
	begins := e.Type == event.ConnectionCheckOutStarted && !c.begun && !c.first.IsZero() && time.Since(c.first) > commitTry
	c.begun = c.begun || begins
	begun := c.begun
	c.mu.Unlock()
	switch {
	case begins:
		c.proxy.lose("ping")
		go c.client.Database("admin").RunCommand(context.Background(), bson.M{"ping": 1})
		within(c.cleared)
	case begun && e.Type == event.ConnectionPoolCleared:
		shut(c.cleared)
		within(c.refused) // nothing makes it ready before
	case begun && e.Type == event.ConnectionCheckOutFailed:
		shut(c.refused)
	}
}

func within(done <-chan struct{}) {
	select {
	case <-done:
	case <-time.After(time.Minute):
	}
}

// A commit was executed, its reply is lost, and when it is sent again the driver's pool has just been cleared. The driver calls that a
// transient error of the transaction, as if the server had said that it never was (mongo-driver 2.9.3, pool.checkOut). Nothing was sent, and
// the effects are there: the function is not called again.
func TestP13_CommitWhenThePoolIsCleared(t *testing.T) {
	calls := map[string]func(*Store, *rowlock.Lease, func(context.Context) error) error{
		"InTx": func(s *Store, lease *rowlock.Lease, fn func(context.Context) error) error {
			return s.InTx(t.Context(), lease, fn)
		},
		"Once": func(s *Store, lease *rowlock.Lease, fn func(context.Context) error) error {
			return s.Once(t.Context(), lease, "r", fn)
		},
	}
	for name, call := range calls {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := &clearing{cleared: make(chan struct{}), refused: make(chan struct{})}
			p, s, _ := behindProxy(t, c.options())
			c.proxy, c.client = p, s.db.Client()
			lease := guarded(t, locker(t, s, rowlock.Options{}), "k")
			p.loseNext(1<<30, "commitTransaction") // the driver itself repeats it for a commitTry
			n := 0
			err := call(s, lease, func(ctx context.Context) error { n++; return add(ctx, s, "effect") })
			select {
			case <-c.refused:
			default:
				t.Fatal("the pool was not cleared under the commit")
			}
			if there := number(t, s, "effect"); err != nil || n != 1 || there != 1 {
				t.Errorf("%v, and of a function that was called %d times the effect is there %d times", err, n, there)
			}
		})
	}
}
