package conn

import (
	"context"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"time"
)

// A server that stands still, and a proxy without a server behind it, accept connections and say nothing on them. The
// driver waits for the greeting for as long as the caller does, who may have no end.

// GreetingWait bounds how long a new connection may take until the server has greeted it and let its user in. A slow
// server needs less; a caller may have less time.
const GreetingWait = 30 * time.Second

// ErrNoGreeting: a new connection was not ready within GreetingWait.
var ErrNoGreeting = fmt.Errorf("no connection to the server was ready within %v", GreetingWait)

// greetings are the connections to one address that are being made.
type greetings struct {
	address           string
	dialled, accepted atomic.Int32 // those that were not accepted yet, and those that were and are not ready
}

// progress is what became of one Connect, which may dial several times.
type progress struct{ accepted atomic.Bool }

// what is in the context of a dial.
type (
	dialKey     struct{} // *net.Conn: where the network connection is put
	progressKey struct{} // *progress
)

type dialFunc = func(ctx context.Context, network, address string) (net.Conn, error)

// noting dials, and notes how far it came.
func (g *greetings) noting(dial dialFunc) dialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		g.dialled.Add(1)
		nc, err := dial(ctx, network, address)
		g.dialled.Add(-1)
		if err != nil {
			return nc, err
		}
		if p, ok := ctx.Value(progressKey{}).(*progress); ok {
			p.accepted.Store(true)
		}
		if into, ok := ctx.Value(dialKey{}).(*net.Conn); ok {
			*into = nc
			g.accepted.Add(1)
		}
		return nc, nil
	}
}

// waits says what new connections wait for now; nil: there are none.
func (g *greetings) waits() error {
	switch {
	case g.accepted.Load() > 0:
		return g.silent(true)
	case g.dialled.Load() > 0:
		return g.silent(false)
	}
	return nil
}

// silent is why a connection is not ready.
func (g *greetings) silent(accepted bool) error {
	if accepted {
		return fmt.Errorf("%s accepts connections and says nothing on them: the server stands still, or a proxy has no server behind it", g.address)
	}
	return fmt.Errorf("%s does not answer: the server is down, the address is wrong, or a firewall is in between", g.address)
}

// bounded makes a connection within GreetingWait, and says why there is none.
func (g *greetings) bounded(ctx context.Context, connect func(context.Context) (sqldriver.Conn, error)) (sqldriver.Conn, error) {
	within, cancel := context.WithTimeout(ctx, GreetingWait)
	defer cancel()
	p := &progress{}
	c, err := connect(context.WithValue(within, progressKey{}, p))
	switch {
	case err == nil || within.Err() == nil:
		return c, err
	case ctx.Err() != nil:
		return nil, fmt.Errorf("%w: %w", ctx.Err(), g.silent(p.accepted.Load()))
	}
	return nil, fmt.Errorf("%w: %w", ErrNoGreeting, g.silent(p.accepted.Load()))
}

// Connecting says what the new connections of a connector by NewConnector wait for; nil: for nothing, or it is another's.
func Connecting(c sqldriver.Connector) func() error {
	if n, ok := c.(netConnector); ok {
		return n.greetings.waits
	}
	return nil
}

// within takes a connection out of a program's pool within GreetingWait.
func within[T any](ctx context.Context, take func(context.Context) (T, error)) (T, error) {
	waiting, cancel := context.WithTimeout(ctx, GreetingWait)
	defer cancel()
	c, err := take(waiting)
	if err != nil && waiting.Err() != nil && ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("%w: the server of the *sql.DB accepts connections and says nothing on them, or does not answer: it stands still, a proxy has no server behind it, or a firewall is in between", ErrNoGreeting)
	}
	return c, err
}
