package fault

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/go-sql-driver/mysql"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/rowlock/rowlock/dev/testenv"
)

// Env is what the faults of a round act on. NewEnv fills in all but Clients, Spaces,
// Reap, Force and TTL, which are the caller's.
type Env struct {
	Kind    testenv.Kind
	Server  *testenv.Server // the round's own
	Proxies []*Proxy        // one for each client process, before all members of the server
	DB      *sql.DB         // MySQL and MariaDB: root, not through a proxy; else nil
	Mongo   *mongo.Client   // MongoDB: not through a proxy; else nil
	Rand    *rand.Rand      // seeded; Inject takes one number from it, under a lock of the Env

	Clients func() []Client                                              // the client processes that live now; may be nil
	Spaces  []Space                                                      // where the locks are
	Reap    func(ctx context.Context) error                              // one run of the reaper over all spaces; may be nil
	Force   func(ctx context.Context, space string, keys []string) error // a forced release; may be nil
	TTL     time.Duration                                                // of the leases

	mu    sync.Mutex
	taken map[string]chan struct{} // what a running fault uses
}

// Client is a client process.
type Client interface {
	Name() string
	Kill() error                       // as kill -9; the supervisor starts another in its place
	Freeze() error                     // as SIGSTOP
	Thaw() error                       // ends Freeze
	StepWallClock(time.Duration) error // its wall clock is off by so much from now on; 0: right again
}

// Space is the tables or collections of one lock space, and some keys that many want.
type Space struct {
	Name   string   // "version"
	Tables []string // MySQL: with a column name, the one that holds the locks first. MongoDB: collections of database test
	Keys   []string
}

// remembers is for mongod: one that is started anew with its clock an hour on forgets who has committed, and says to a driver that asks once more
// that there was no such transaction (TestServerForgetsCommits). That is an exception, and would hide what is none.
var remembers = []string{"--setParameter", "TransactionRecordMinimumLifetimeMinutes=525600"}

// NewEnv starts a server, where possible with a clock that can be set and a disk
// that can be full, and so many proxies before it. The caller must Close it.
func NewEnv(ctx context.Context, kind testenv.Kind, proxies int, seed uint64) (*Env, error) {
	var args []string
	if isMongo(kind) {
		args = remembers
	}
	s, err := testenv.StartTroubled(ctx, kind, args...)
	if errors.Is(err, testenv.ErrUnavailable) {
		s, err = testenv.Start(ctx, kind)
	}
	if err != nil {
		return nil, err
	}
	e := &Env{Kind: kind, Server: s, Rand: seeded(seed), TTL: 2 * time.Second}
	if err = e.connect(); err == nil {
		for range proxies {
			var p *Proxy
			if p, err = NewProxy(s); err != nil {
				break
			}
			e.Proxies = append(e.Proxies, p)
		}
	}
	if err != nil {
		return nil, errors.Join(err, e.Close())
	}
	return e, nil
}

// connect opens the direct ways to the server.
func (e *Env) connect() (err error) {
	if isMongo(e.Kind) {
		e.Mongo, err = mongo.Connect(options.Client().ApplyURI(e.Server.DSN()).SetServerSelectionTimeout(10 * time.Second))
		return err
	}
	e.DB, err = openSQL(e.Server.DSN())
	return err
}

// openSQL opens a way to the server that does not log what faults do to it.
func openSQL(dsn string) (*sql.DB, error) {
	c, err := mysql.ParseDSN(dsn)
	if err != nil {
		return nil, err
	}
	c.Logger = &mysql.NopLogger{}
	connector, err := mysql.NewConnector(c)
	if err != nil {
		return nil, err
	}
	return sql.OpenDB(connector), nil
}

// Close ends the proxies and the server.
func (e *Env) Close() error {
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		for _, p := range e.Proxies {
			p.Close()
		}
	}()
	select {
	case <-closed:
	case <-time.After(5 * time.Second): // toxiproxy can lock itself up: the server must end all the same
	}
	if e.DB != nil {
		_ = e.DB.Close()
	}
	if e.Mongo != nil {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		_ = e.Mongo.Disconnect(ctx)
		cancel()
	}
	return e.Server.Close()
}

func seeded(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 1)) }

func isMongo(kind testenv.Kind) bool {
	return kind == testenv.Mongo || kind == testenv.MongoStandalone || kind == testenv.Mongo3
}

// take waits until nothing of this is used. Faults that take several take them in the
// same order.
func (e *Env) take(ctx context.Context, uses []string) (release func(), err error) {
	var mine []chan struct{}
	release = func() {
		for _, c := range mine {
			<-c
		}
	}
	for _, name := range uses {
		e.mu.Lock()
		if e.taken == nil {
			e.taken = map[string]chan struct{}{}
		}
		if e.taken[name] == nil {
			e.taken[name] = make(chan struct{}, 1)
		}
		c := e.taken[name]
		e.mu.Unlock()
		select {
		case c <- struct{}{}:
			mine = append(mine, c)
		case <-ctx.Done():
			release()
			return nil, fmt.Errorf("wait for %s: %w", name, ctx.Err())
		}
	}
	return release, nil
}
