package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/robfig/cron/v3"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/examples/internal/fleet"
	"github.com/rowlock/rowlock/examples/internal/servers"
	"github.com/rowlock/rowlock/examples/internal/timed"
	mysqllock "github.com/rowlock/rowlock/mysql"
)

// podTask is what a pod is told.
type podTask struct {
	Server   servers.Server
	Strategy mysqllock.Strategy
	Space    string // begins the names of all tables
	TTL      time.Duration
	Pod      int
	Chunks   []chunk
	Without  bool
}

// event is what a pod reports to the parent, which only counts and draws.
type event struct {
	Kind    kind
	Chunk   int // posted, now or already
	Problem string
}

type kind string

const (
	began   kind = "began"   // it has the lock
	already kind = "already" // a chunk that is posted already
	posted  kind = "posted"  // one more chunk

	// The rest ends a tick.
	done    kind = "done"    // the night's work is done
	refused kind = "refused" // another pod has the lock
	lost    kind = "lost"    // it had the lock, and lost it
	stopped kind = "stopped" // the parent said stop meanwhile
	alert   kind = "alert"   // anything else: twice in a row, and somebody must look
)

// pod is one process: a scheduler, the locks and the bank.
type pod struct {
	podTask
	ctx    context.Context
	parent *fleet.Parent
	store  *mysqllock.Store
	locks  *rowlock.Client
	bank   *bank
}

const jobKey = "nightly:interest"

// playPod has a tick every second until the parent says stop.
func playPod(ctx context.Context, parent *fleet.Parent) (err error) {
	var t podTask
	if err := parent.Receive(&t); err != nil {
		return err
	}
	p := &pod{podTask: t, ctx: ctx, parent: parent}
	if p.bank, err = openBank(t.Server, t.Space, t.Pod); err != nil {
		return err
	}
	defer p.bank.db.Close()
	if p.store, err = t.Server.OpenStore(mysqllock.Options{Strategy: t.Strategy, Prefix: t.Space}); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.store.Close()) }()
	if p.locks, err = rowlock.New(p.store, rowlock.Options{TTL: t.TTL, Owner: fmt.Sprintf("pod %d", t.Pod)}); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, timed.Within(5*time.Second, p.locks.Close)) }()

	// A real one would tick at night. It ticks more often than once, because the
	// pod that works may die: every pod asks, and all but one are refused.
	ticker := cron.New(cron.WithChain(cron.SkipIfStillRunning(cron.DiscardLogger)))
	if _, err := ticker.AddFunc("@every 1s", func() { _ = parent.Send(p.tick()) }); err != nil {
		return err
	}
	ticker.Start()
	<-ctx.Done()
	<-ticker.Stop().Done()
	return nil
}

// tick is the whole job: the pod that gets the lock posts what is not posted yet.
func (p *pod) tick() event {
	work := p.post
	if p.Without {
		work = p.postWithout
	}
	err := rowlock.Do(p.ctx, p.locks, jobKey, work, rowlock.NoWait())
	switch {
	case err == nil:
		return event{Kind: done}
	case p.ctx.Err() != nil:
		return event{Kind: stopped}
	case errors.Is(err, rowlock.ErrHeld), errors.Is(err, rowlock.ErrReleasing): // the latter: its own last hold is not settled yet
		return event{Kind: refused}
	case errors.Is(err, rowlock.ErrLost):
		return event{Kind: lost, Problem: err.Error()}
	default:
		return event{Kind: alert, Problem: err.Error()}
	}
}

// post runs every chunk of the night once. What another pod has posted says so by
// ErrAlreadyRan: nobody keeps a list of what is done.
func (p *pod) post(ctx context.Context, lease *rowlock.Lease) error {
	p.report(event{Kind: began})
	for _, c := range p.Chunks {
		err := p.once(ctx, lease, c)
		switch {
		case errors.Is(err, rowlock.ErrAlreadyRan):
			p.report(event{Kind: already, Chunk: c.Number})
		case err != nil:
			return err
		default:
			p.report(event{Kind: posted, Chunk: c.Number})
		}
	}
	return nil
}

// once posts one chunk. It asks again while the database says that it undid the
// transaction because of another one, or that nobody knows yet what became of it:
// with the same run ID that is safe.
func (p *pod) once(ctx context.Context, lease *rowlock.Lease, c chunk) error {
	for {
		err := p.store.Once(ctx, lease, c.Run, func(ctx context.Context, tx *sql.Tx) error {
			return p.bank.post(ctx, tx, c, lease)
		})
		if !errors.Is(err, rowlock.ErrConflict) && !errors.Is(err, rowlock.ErrUnknownOutcome) {
			return err
		}
	}
}

func (p *pod) report(e event) { _ = p.parent.Send(e) }
