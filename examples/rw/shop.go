package main

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/examples/internal/fleet"
	"github.com/rowlock/rowlock/examples/internal/timed"
	mysqllock "github.com/rowlock/rowlock/mysql"
)

// key is the lock of the price list.
const key = "prices"

// way is how the lock is taken.
type way string

const (
	without way = "none"
	alone   way = "Acquire"           // one for all: readers exclude each other
	shared  way = "Acquire, Shared()" // readers may be beside each other
)

// task is what a program is told.
type task struct {
	Plan  plan
	Space string
	Way   way
}

// result is what came of it, in one program.
type result struct {
	Lists int       // that were read, or written
	Torn  int       // lists with prices of two
	Waits []float64 // for the lock, in seconds
}

// shop is what a program works with.
type shop struct {
	task
	db    *sql.DB
	locks *rowlock.Client
}

// play opens a shop, waits for the beginning, and lets work go on for the plan's time. wait is
// for acquires: it ends with that time. What has begun by then is finished.
func play(ctx context.Context, parent *fleet.Parent, work func(s *shop, ctx, wait context.Context) (result, error)) (err error) {
	s := &shop{}
	if err := parent.Receive(&s.task); err != nil {
		return err
	}
	if s.db, err = s.Plan.Backend.SQL(s.Plan.Readers); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.db.Close()) }()
	store, err := s.Plan.Backend.OpenStore(mysqllock.Options{Prefix: s.Space, Strategy: s.Plan.Strategy})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	if s.locks, err = rowlock.New(store, rowlock.Options{}); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, timed.Within(5*time.Second, s.locks.Close)) }()
	if err := errors.Join(s.db.PingContext(ctx), store.Check(ctx), parent.Send("ready")); err != nil {
		return err
	}
	var begin string
	if err := parent.Receive(&begin); err != nil {
		return err
	}
	wait, cancel := context.WithTimeout(ctx, s.Plan.Span)
	defer cancel()
	r, err := work(s, ctx, wait)
	if err != nil {
		return err
	}
	return parent.Send(r)
}

// locked does something with the list under the lock, and returns how long it waited for that.
// The wait ends with wait, what is done then does not.
func (s *shop) locked(ctx, wait context.Context, do func(context.Context) error, opts ...rowlock.Option) (time.Duration, error) {
	if s.Way == without {
		return 0, do(ctx)
	}
	began := time.Now()
	lease, err := s.locks.Acquire(wait, key, opts...)
	if err != nil {
		return 0, err
	}
	defer lease.Release(ctx)
	waited := time.Since(began)
	return waited, do(lease.Context(ctx))
}
