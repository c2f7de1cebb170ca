package command

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"sync"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/x/mongo/driver/topology"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/mongo/internal/document"
)

// MinConns is what a pool must allow: an acquire, a renewal and the change stream of observers at once,
// and a question on another connection.
const MinConns = 4

// MinFewConns is the same with few connections: a change stream or a transaction, a step, and a question on another connection.
const MinFewConns = 3

// largePool has room for all that the Store may use, and for what CheckPool occupies.
const largePool = 32

// CheckPool refuses a pool that is too small. The driver does not say how large one is,
// but in the error of a command that found no connection (noConnection). So some commands
// occupy connections for a moment. In a pool that has enough of them idle others find one,
// and nothing is refused. Of a large pool they are left alone with their connections when
// that is known: nobody waits for them but Close, which ends them.
func (r *Runner) CheckPool(ctx context.Context, hello bson.Raw, least int) error {
	version, err := hello.LookupErr("topologyVersion")
	if err != nil {
		return nil
	}
	const occupied = 50 * time.Millisecond
	done := r.occupiers.start(ctx, least-1, func(ctx context.Context) {
		_, _ = r.Send(ctx, nil, bson.D{
			{Key: "hello", Value: 1},
			{Key: "topologyVersion", Value: version},
			{Key: "maxAwaitTimeMS", Value: document.Millis(occupied)},
		}, 0)
	})
	for {
		if p, known := poolOf(r.noConnection()); known {
			if p.most != 0 && p.most < largePool {
				<-done // others would miss the connections
			}
			return tooSmall(p.most, least)
		}
		select {
		case <-done:
			return nil
		case <-time.After(time.Millisecond):
		}
	}
}

// occupiers are commands that occupy connections, until Close.
type occupiers struct {
	mu     sync.Mutex
	closed chan struct{} // nil: not used yet
	over   bool
	wait   sync.WaitGroup
}

// start runs send n times at once. done is closed when they have returned. Their context does not end
// with ctx, but at Close.
func (o *occupiers) start(ctx context.Context, n int, send func(context.Context)) (done chan struct{}) {
	done = make(chan struct{})
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.over {
		close(done)
		return done
	}
	if o.closed == nil {
		o.closed = make(chan struct{})
	}
	closed := o.closed
	ctx, end := context.WithCancel(context.WithoutCancel(ctx))
	o.wait.Go(func() {
		defer end()
		var all sync.WaitGroup
		for range n {
			all.Go(func() { send(ctx) })
		}
		go func() { all.Wait(); close(done) }()
		select {
		case <-closed:
			end()
		case <-done:
		}
		<-done
	})
	return done
}

// close ends them, and waits until they have ended.
func (o *occupiers) close() {
	o.mu.Lock()
	if !o.over && o.closed != nil {
		close(o.closed)
	}
	o.over = true
	o.mu.Unlock()
	o.wait.Wait()
}

// noConnection is the error of a command that is cancelled before it begins. Where an idle
// connection is there for it the error says only that; otherwise what the pool is like.
// Nothing is sent.
func (r *Runner) noConnection() error {
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	return r.db.RunCommand(NoDeadline(gone), document.Op("ping", 1)).Err()
}

// Explain is an error if all connections of the pool are in use, or if the driver knows no
// server that takes commands; otherwise nil.
func (r *Runner) Explain() error {
	err := r.noConnection()
	// Its own text, because the error of this command is that it was cancelled.
	if selection := (topology.ServerSelectionError{}); errors.As(err, &selection) {
		return fmt.Errorf("%w (server selection error: current topology: { %s })"+absentAdvice, errAbsent, selection.Desc.String())
	}
	return exhausted(err)
}

var errPoolBusy = errors.New("no connection of the pool was free")

// exhausted is an error with the numbers of the pool if err is that of a command that got
// no connection of it because all were in use; otherwise nil.
func exhausted(err error) error {
	p, known := poolOf(err)
	if !known || p.most == 0 || p.open < p.most || p.idle > 0 {
		return nil
	}
	return fmt.Errorf("%w (%d of %d in use): set maxPoolSize to more, or give the locks a mongo.Client of their own", errPoolBusy, p.open, p.most)
}

// BusyPool is exhausted for a command that may have waited for its place only, behind others
// that wait for connections.
func (r *Runner) BusyPool(err error) error {
	if errors.Is(err, errNoPlace) {
		return r.Explain()
	}
	return exhausted(err)
}

// pool is what the driver tells of one.
type pool struct{ open, most, idle int } // most 0: without bound

var poolText = regexp.MustCompile(`total connections: (\d+), maxPoolSize: (\d+), .*idle connections: (\d+)`)

// poolOf finds it in the error of a command that got no connection.
func poolOf(err error) (p pool, known bool) {
	if err == nil {
		return p, false
	}
	m := poolText.FindStringSubmatch(err.Error())
	if m == nil {
		return p, false
	}
	for i, n := range []*int{&p.open, &p.most, &p.idle} {
		if *n, err = strconv.Atoi(m[i+1]); err != nil {
			return p, false
		}
	}
	return p, true
}

func tooSmall(size, least int) error {
	if size == 0 || size >= least {
		return nil
	}
	return &driver.Error{Lasting: true, NotApplied: true, Err: fmt.Errorf("%w: the pool of the mongo.Client allows %d connections (maxPoolSize), locks need at least %d: "+
		"acquires, renewals and the change stream of Observe go on at the same time", driver.ErrInvalid, size, least)}
}
