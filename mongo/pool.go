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
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/rowlock/rowlock/driver"
)

// The Store uses a few connections of its client's pool, however many callers, keys and
// leases there are: workConns for acquires, probes and all that an operator asks, and
// vitalConns for renewals, releases and undos, which wait for none of the former; one
// for the change stream, and one for each running InTx or Once. Of the workConns acquires
// of pinned keys have at most pinnedConns: they send many commands, and nobody else
// waits for them. While a command is
// overdue the question of silence.go uses more, for a second.
const (
	workConns   = parallel
	vitalConns  = 4
	pinnedConns = 3

	// minConns is what a pool must allow: a change stream, an acquire and a renewal at
	// once, and a question on another connection.
	minConns = 4
)

// maxConns is what the Store has under way at once, at most.
const maxConns = workConns + vitalConns + 1

// conns counts the commands that are under way.
type conns struct{ work, vital, pinned chan struct{} }

func newConns() conns {
	return conns{work: make(chan struct{}, workConns), vital: make(chan struct{}, vitalConns), pinned: make(chan struct{}, pinnedConns)}
}

type connsKey struct{}

// vital marks the context of calls that keep or end leases.
func vital(ctx context.Context) context.Context {
	return context.WithValue(ctx, connsKey{}, func(c conns) []chan struct{} { return []chan struct{}{c.vital} })
}

// ofPinned marks the context of acquires of pinned keys.
func ofPinned(ctx context.Context) context.Context {
	return context.WithValue(ctx, connsKey{}, func(c conns) []chan struct{} { return []chan struct{}{c.pinned, c.work} })
}

var errNoTurn = errors.New("waiting for a turn among the Store's commands")

// use takes a place for one command, and returns how to give it back.
func (c conns) use(ctx context.Context) (leave func(), err error) {
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
			return nil, fmt.Errorf("%w: %w", errNoTurn, ctx.Err())
		}
	}
	return leave, nil
}

// checkPool refuses a pool that is too small. The driver does not tell how large one is,
// but in the error of a command that was cancelled while it waited for a connection. So
// some commands occupy connections for a moment, and others are cancelled before they
// begin. In a pool that has enough of them idle these find one, and nothing is refused.
func (s *Store) checkPool(ctx context.Context, hello bson.Raw) error {
	version, err := hello.LookupErr("topologyVersion")
	if err != nil {
		return nil
	}
	const occupied = 50 * time.Millisecond
	gone, cancel := context.WithCancel(ctx)
	cancel()
	done := make(chan struct{})
	var occupiers sync.WaitGroup
	for range minConns - 1 {
		occupiers.Go(func() {
			_, _ = s.send(ctx, nil, d{
				{Key: "hello", Value: 1},
				{Key: "topologyVersion", Value: version},
				{Key: "maxAwaitTimeMS", Value: millis(occupied)},
			}, 0)
		})
	}
	go func() { occupiers.Wait(); close(done) }()
	for {
		// Not sent, and in no session: ctx may carry the caller's.
		err := s.db.RunCommand(mongo.NewSessionContext(callContext{gone}, nil), op("ping", 1)).Err()
		if size, known := poolSize(err); known {
			<-done
			return tooSmall(size)
		}
		select {
		case <-done:
			return nil
		case <-time.After(time.Millisecond):
		}
	}
}

var maxPoolSize = regexp.MustCompile(`maxPoolSize: (\d+)`)

// poolSize finds the size of the pool in the error of a command that had no connection;
// 0: without bound.
func poolSize(err error) (int, bool) {
	if err == nil {
		return 0, false
	}
	m := maxPoolSize.FindStringSubmatch(err.Error())
	if m == nil {
		return 0, false
	}
	n, err := strconv.Atoi(m[1])
	return n, err == nil
}

func tooSmall(size int) error {
	if size == 0 || size >= minConns {
		return nil
	}
	return &driver.Error{Lasting: true, NotApplied: true, Err: fmt.Errorf("%w: the pool of the mongo.Client allows %d connections (maxPoolSize), locks need at least %d: "+
		"a change stream, acquires and renewals go on at the same time", driver.ErrInvalid, size, minConns)}
}
