package main

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/examples/internal/fleet"
	"github.com/rowlock/rowlock/examples/internal/servers"
	"github.com/rowlock/rowlock/examples/internal/timed"
	mysqllock "github.com/rowlock/rowlock/mysql"
)

// relayTask is what a relay is told.
type relayTask struct {
	Server   servers.Server
	Strategy mysqllock.Strategy
	Space    string // begins the names of all tables
	Receiver string // its URL
	TTL      time.Duration
}

// event is what a relay reports to the parent, which only counts and draws.
type event struct {
	Kind    kind
	Last    int64 // the last message that is noted as sent
	Problem string
}

type kind string

const (
	began   kind = "began"   // it has the lock
	sent    kind = "sent"    // one more batch is sent and noted
	idle    kind = "idle"    // there is nothing to send
	stale   kind = "stale"   // it lost the lock, and the receiver told it so
	refused kind = "refused" // it lost the lock, and the guard refused to note what it sent
	lost    kind = "lost"    // it lost the lock, and saw it by itself
	alert   kind = "alert"   // anything else: somebody must look
)

// relay is one process that wants to send.
type relay struct {
	relayTask
	ctx    context.Context
	parent *fleet.Parent
	shop   *shop
	store  *mysqllock.Store
}

const (
	outboxKey = "outbox"
	batch     = 20
)

var (
	errStale = errors.New("the receiver has seen a newer token")
	errNote  = errors.New("note what was sent")
)

// playRelay waits for the lock, sends while it has it, and begins anew when it was
// lost, until the parent says stop.
func playRelay(ctx context.Context, parent *fleet.Parent) (err error) {
	r := &relay{ctx: ctx, parent: parent}
	if err := parent.Receive(&r.relayTask); err != nil {
		return err
	}
	if r.shop, err = openShop(r.Server, r.Space); err != nil {
		return err
	}
	defer r.shop.db.Close()
	if r.store, err = r.Server.OpenStore(mysqllock.Options{Strategy: r.Strategy, Prefix: r.Space}); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.store.Close()) }()
	locks, err := rowlock.New(r.store, rowlock.Options{TTL: r.TTL})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, timed.Within(5*time.Second, locks.Close)) }()

	for ctx.Err() == nil {
		err := rowlock.Do(ctx, locks, outboxKey, r.relay)
		switch {
		case err == nil, ctx.Err() != nil:
		case errors.Is(err, errStale):
			r.report(event{Kind: stale})
		case errors.Is(err, errNote) && errors.Is(err, rowlock.ErrLost):
			r.report(event{Kind: refused})
		case errors.Is(err, rowlock.ErrLost):
			r.report(event{Kind: lost})
		default:
			r.report(event{Kind: alert, Problem: err.Error()})
			_ = timed.Sleep(ctx, time.Second)
		}
	}
	return nil
}

// relay sends batch after batch while it has the lock. What the relay before it
// noted is there already: the lock was granted after its last transaction.
func (r *relay) relay(ctx context.Context, lease *rowlock.Lease) error {
	r.report(event{Kind: began})
	position, err := r.shop.position(ctx)
	if err != nil {
		return err
	}
	r.report(event{Kind: idle, Last: position})
	for {
		messages, err := r.shop.after(ctx, position, batch)
		if err != nil {
			return err
		}
		if len(messages) == 0 {
			if err := timed.Sleep(ctx, 20*time.Millisecond); err != nil {
				return err
			}
			continue
		}
		for _, m := range messages {
			m.Token = lease.Token()
			if err := r.send(m); err != nil {
				return err
			}
		}
		// A relay that dies or stands still between the sending and this has sent what
		// nobody knows of: the next one sends it again.
		first, last := messages[0].Number, messages[len(messages)-1].Number
		err = r.store.InTx(ctx, lease, func(ctx context.Context, tx *sql.Tx) error {
			return r.shop.note(ctx, tx, first, last, lease.Token())
		})
		switch {
		case errors.Is(err, rowlock.ErrConflict), errors.Is(err, rowlock.ErrUnknownOutcome):
			// Give the lock back and begin anew: it is granted after this transaction has
			// ended, so the position says what became of it.
			return nil
		case err != nil:
			return fmt.Errorf("%w: %w", errNote, err)
		}
		position = last
		r.report(event{Kind: sent, Last: last})
	}
}

// send sends one message to the other system. Its time-out is its own, as in a
// client of any other system: it does not end with the lease.
func (r *relay) send(m message) error {
	ctx, cancel := context.WithTimeout(r.ctx, 10*time.Second)
	defer cancel()
	body, err := json.Marshal(m)
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, r.Receiver, bytes.NewReader(body))
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	switch answer.StatusCode {
	case http.StatusOK:
		return nil
	case http.StatusConflict:
		return errStale
	default:
		return fmt.Errorf("the receiver answers %s", answer.Status)
	}
}

func (r *relay) report(e event) { _ = r.parent.Send(e) }
