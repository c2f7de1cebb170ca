package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/rowlock/rowlock"
	promrowlock "github.com/rowlock/rowlock/adapters/prom"
	"github.com/rowlock/rowlock/driver"
	mongolock "github.com/rowlock/rowlock/mongo"
	mysqllock "github.com/rowlock/rowlock/mysql"
)

// task is what a process is told that it is.
type task struct {
	Role     string // and the name of its client
	DSN      string // of MySQL, by way of the proxy
	URI      string // of MongoDB: for the role mail
	Database string // in MongoDB
}

// Words that a process is told, and those that it says, each on a line. The first that it says is the
// address of its metrics.
const (
	many  = "many"  // to a shop: many callers want the same key
	force = "force" // to admin: free a key that is held
	leads = "leads" // from jobs: it is the leader now
)

// The keys of the picture.
const (
	report = "report"
	daily  = "import/daily"
	weekly = "import/weekly"
)

// callers is how many those of a shop are.
const callers = 8

// member is a process.
type member struct {
	task
	store store
	locks *rowlock.Client // nil: the role has none
	work  sync.WaitGroup
}

// runMember is the whole life of a process, until its input ends.
func runMember(ctx context.Context) (err error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	in := bufio.NewScanner(os.Stdin)
	if !in.Scan() {
		return errors.Join(errors.New("no task"), in.Err())
	}
	m := &member{}
	if err := json.Unmarshal(in.Bytes(), &m.task); err != nil {
		return err
	}
	opened, end, err := m.open(ctx)
	if err != nil {
		return err
	}
	m.store = opened
	defer func() { err = errors.Join(err, end()) }()
	address, err := m.serve()
	if err != nil {
		return err
	}
	defer func() {
		stop()
		err = errors.Join(err, m.end())
	}()
	m.begin(ctx)
	fmt.Println(address)
	for in.Scan() {
		switch in.Text() {
		case many:
			for range callers {
				m.work.Go(func() { m.once(ctx, daily, 9*time.Second, 500*time.Millisecond) })
			}
		case force:
			if _, err := m.store.ForceRelease(ctx, weekly); err != nil {
				return err
			}
		}
	}
	return in.Err()
}

// end waits for what the role does, and closes its client.
func (m *member) end() error {
	m.work.Wait()
	if m.locks == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	var lost *rowlock.LostError
	if err := m.locks.Close(ctx); err != nil && !errors.As(err, &lost) {
		return err
	}
	return nil
}

// store is that of MySQL or MongoDB.
type store interface {
	driver.Store
	promrowlock.Lister
	Migrate(ctx context.Context) error
	ForceRelease(ctx context.Context, key string) (rowlock.Info, error)
}

// open opens the store of the role.
func (t task) open(ctx context.Context) (opened store, end func() error, err error) {
	if t.URI == "" {
		s, err := mysqllock.Open(t.DSN, mysqllock.Options{})
		if err != nil {
			return nil, nil, err
		}
		return s, s.Close, nil
	}
	client, err := mongo.Connect(options.Client().ApplyURI(t.URI))
	if err != nil {
		return nil, nil, err
	}
	end = func() error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		return client.Disconnect(ctx)
	}
	s, err := mongolock.New(client.Database(t.Database).Collection("locks"), mongolock.Options{})
	if err != nil {
		return nil, nil, errors.Join(err, end())
	}
	return s, end, nil
}

// serve makes the client, and serves its metrics. The role admin has none: it counts the keys in the database.
func (m *member) serve() (address string, err error) {
	registry := prometheus.NewPedanticRegistry()
	if m.Role == "admin" {
		keys, err := promrowlock.NewDBCollector(m.store, promrowlock.DBOptions{
			Prefixes: []string{"import/", "order/"}, MaxAge: -1,
			Timeout: 500 * time.Millisecond, // less than Prometheus waits for all metrics of the process: they come every second
		})
		if err != nil {
			return "", err
		}
		registry.MustRegister(keys)
	} else {
		observer, metrics := promrowlock.New(promrowlock.Options{})
		o := rowlock.Options{
			Name: m.Role, KeyName: rowlock.UpTo("/"), Observers: []*rowlock.Observer{observer},
			TTL: 15 * time.Second, // more than the server is away for
		}
		if m.Role == "jobs" {
			o.TTL = 3 * time.Second // less
		}
		if m.locks, err = rowlock.New(m.store, o); err != nil {
			return "", err
		}
		registry.MustRegister(metrics)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	go func() { // until the process ends
		_ = http.Serve(l, promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	}()
	return l.Addr().String(), nil
}

// begin starts what the role does all the time.
func (m *member) begin(ctx context.Context) {
	switch m.Role {
	case "shop":
		for range 4 {
			m.forever(ctx, func() {
				key := fmt.Sprint("order/", rand.IntN(6))
				if rand.IntN(5) == 0 {
					m.once(ctx, key, 0, 20*time.Millisecond)
				} else {
					m.once(ctx, key, 3*time.Second, 20*time.Millisecond)
				}
			})
		}
	case "import":
		m.work.Go(func() { m.once(ctx, weekly, time.Minute, time.Hour) })
	case "jobs":
		m.work.Go(func() {
			err := rowlock.Lead(ctx, m.locks, report, func(ctx context.Context, _ *rowlock.Lease) error {
				fmt.Println(leads)
				<-ctx.Done()
				return ctx.Err()
			})
			if ctx.Err() == nil {
				log.Print(err)
			}
		})
	case "mail":
		for range 3 {
			m.forever(ctx, func() {
				m.once(ctx, fmt.Sprint("mail/", rand.IntN(3)), 3*time.Second, 40*time.Millisecond, rowlock.Slots(2))
			})
		}
	}
}

// forever does something again and again, with pauses.
func (m *member) forever(ctx context.Context, do func()) {
	m.work.Go(func() {
		for ctx.Err() == nil {
			do()
			sleep(ctx, 100*time.Millisecond+rand.N(200*time.Millisecond))
		}
	})
}

// once takes a key, waiting for at most so long (0: it only tries), and holds it for a while. Errors are in the metrics.
func (m *member) once(ctx context.Context, key string, wait, hold time.Duration, opts ...rowlock.Option) {
	if wait == 0 {
		opts = append(opts, rowlock.NoWait())
	} else {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, wait+hold)
		defer cancel()
	}
	waiting, cancel := context.WithTimeout(ctx, max(wait, time.Second))
	lease, err := m.locks.Acquire(waiting, key, opts...)
	cancel()
	if err != nil {
		return
	}
	select {
	case <-lease.Done():
	case <-time.After(hold):
	case <-ctx.Done():
	}
	_ = lease.Release(context.WithoutCancel(ctx))
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
