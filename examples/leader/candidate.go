package main

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/examples/internal/fleet"
	"github.com/rowlock/rowlock/examples/internal/servers"
	"github.com/rowlock/rowlock/examples/internal/timed"
	mysqllock "github.com/rowlock/rowlock/mysql"
)

// candidateTask is what a process is told.
type candidateTask struct {
	Name, Space string
	Backend     servers.Server
	TTL         time.Duration
}

// report is what a process says at the beginning and at the end of a term.
type report struct {
	Term    int64
	At      time.Time
	Ended   bool
	Trusted time.Time // the last look that found the lease held
	Late    string    // why a guarded write after the end was refused; empty: it was not
}

// key is what the processes campaign for.
const key = "leader"

// playCandidate stands for election until the story is over.
func playCandidate(ctx context.Context, parent *fleet.Parent) (err error) {
	var t candidateTask
	if err := parent.Receive(&t); err != nil {
		return err
	}
	store, err := t.Backend.OpenStore(mysqllock.Options{Prefix: t.Space})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	locks, err := rowlock.New(store, rowlock.Options{TTL: t.TTL, Owner: t.Name})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, timed.Within(5*time.Second, locks.Close)) }()

	// lead is one term: it works until its context ends.
	lead := func(ctx context.Context, term *rowlock.Lease) error {
		r := report{Term: term.Token(), At: time.Now()}
		if err := parent.Send(r); err != nil {
			return err
		}
		work := func(ctx context.Context) error {
			return store.InTx(ctx, term, func(ctx context.Context, tx *sql.Tx) error {
				_, err := tx.ExecContext(ctx, "INSERT INTO "+t.Space+"_ledger (term, who) VALUES (?, ?)", term.Token(), t.Name)
				return err
			})
		}
		for {
			look := time.Now()
			if term.Err() != nil {
				break
			}
			r.Trusted = look
			_ = work(ctx) // fails when the term is over
			if timed.Sleep(ctx, 20*time.Millisecond) != nil {
				break
			}
		}
		r.At, r.Ended = time.Now(), true
		if err := work(context.WithoutCancel(ctx)); err != nil { // a leader that does not know when to stop
			r.Late = err.Error()
		}
		return parent.Send(r)
	}
	err = rowlock.Lead(ctx, locks, key, lead)
	if errors.Is(err, context.Canceled) && ctx.Err() != nil {
		return nil // the story is over
	}
	return err
}
