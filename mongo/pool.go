package mongolock

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"sync"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/mongo/internal/document"
)

// The Store uses a few connections of its client's pool, however many callers, keys and
// leases there are: workConns for acquires, probes and all that an operator asks, and
// priorityConns for renewals, releases and undos, which wait for none of the former; one
// for the change stream, and one for each running InTx or Once. Of the workConns acquires
// of pinned keys have at most pinnedConns: they send many commands, and nobody else
// waits for them. While a command is overdue the question of silence.go uses more, for a
// second.
const (
	workConns     = parallel
	priorityConns = 4
	pinnedConns   = 3

	// minConns is what a pool must allow: a change stream, an acquire and a renewal at
	// once, and a question on another connection.
	minConns = 4
)

// maxConns is what the Store has under way at once, at most.
const maxCommands = workConns + priorityConns + 1

// conns counts the commands that are under way.
type conns struct{ work, priority, pinned chan struct{} }

func newConns() conns {
	return conns{work: make(chan struct{}, workConns), priority: make(chan struct{}, priorityConns), pinned: make(chan struct{}, pinnedConns)}
}

type connsKey struct{}

// priority marks the context of calls that keep or end leases.
func priority(ctx context.Context) context.Context {
	return context.WithValue(ctx, connsKey{}, func(c conns) []chan struct{} { return []chan struct{}{c.priority} })
}

// forPinned marks the context of acquires of pinned keys.
func forPinned(ctx context.Context) context.Context {
	return context.WithValue(ctx, connsKey{}, func(c conns) []chan struct{} { return []chan struct{}{c.pinned, c.work} })
}

var errNoPlace = errors.New("waiting for a place among the Store's commands")

// enter takes a place for one command, and returns how to give it back.
func (c conns) enter(ctx context.Context) (leave func(), err error) {
	places := []chan struct{}{c.work}
	if of, ok := ctx.Value(connsKey{}).(func(conns) []chan struct{}); ok {
		places = of(c)
	}
	taken := 0
	leave = func() {
		for _, p := range places[:taken] {
			<-p
		}
	}
	for _, p := range places {
		select {
		case p <- struct{}{}:
			taken++
		case <-ctx.Done():
			leave()
			return nil, fmt.Errorf("%w: %w", errNoPlace, ctx.Err())
		}
	}
	return leave, nil
}

// checkPool refuses a pool that is too small. The driver does not tell how large one is,
// but in the error of a command that found no connection (noConnection). So some commands
// occupy connections for a moment. In a pool that has enough of them idle others find one,
// and nothing is refused.
func (s *Store) checkPool(ctx context.Context, hello bson.Raw) error {
	version, err := hello.LookupErr("topologyVersion")
	if err != nil {
		return nil
	}
	const occupied = 50 * time.Millisecond
	done := make(chan struct{})
	var occupiers sync.WaitGroup
	for range minConns - 1 {
		occupiers.Go(func() {
			_, _ = s.send(ctx, nil, bson.D{
				{Key: "hello", Value: 1},
				{Key: "topologyVersion", Value: version},
				{Key: "maxAwaitTimeMS", Value: document.Millis(occupied)},
			}, 0)
		})
	}
	go func() { occupiers.Wait(); close(done) }()
	for {
		if p, known := poolOf(s.noConnection()); known {
			<-done
			return tooSmall(p.most)
		}
		select {
		case <-done:
			return nil
		case <-time.After(time.Millisecond):
		}
	}
}

// noConnection is the error of a command that is cancelled before it begins. Where an idle
// connection is there for it the error says only that; otherwise what the pool is like.
// Nothing is sent.
func (s *Store) noConnection() error {
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	return s.db.RunCommand(callContext{gone}, document.Op("ping", 1)).Err()
}

// Explain implements driver.Explainer: a pool that other work keeps exhausted lets a
// command wait for as long as its context lasts, and says nothing.
func (s *Store) Explain() error { return exhausted(s.noConnection()) }

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

// busyPool is exhausted for a command that may have waited for its place only, behind others
// that wait for connections.
func (s *Store) busyPool(err error) error {
	if errors.Is(err, errNoPlace) {
		return s.Explain()
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

func tooSmall(size int) error {
	if size == 0 || size >= minConns {
		return nil
	}
	return &driver.Error{Lasting: true, NotApplied: true, Err: fmt.Errorf("%w: the pool of the mongo.Client allows %d connections (maxPoolSize), locks need at least %d: "+
		"a change stream, acquires and renewals go on at the same time", driver.ErrInvalid, size, minConns)}
}
