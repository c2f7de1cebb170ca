package main

import (
	"context"
	"errors"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/examples/internal/fleet"
	"github.com/rowlock/rowlock/examples/internal/timed"
)

// jobKey is what the pods share.
const jobKey = "report"

// podTask is what a pod is told.
type podTask struct {
	Schedule schedule
	Space    string
}

// event is what a pod says: that a run of the job begins, from inside it, so that even a pod
// that dies then has said so; or that it is over.
type event struct {
	Began bool
	Token int64
	At    time.Time
	Since time.Time // when the key was granted, by the database's clock
}

// playPod is one pod.
func playPod(ctx context.Context, parent *fleet.Parent) (err error) {
	var t podTask
	if err := parent.Receive(&t); err != nil {
		return err
	}
	store, closeStore, err := t.Schedule.Backend.OpenLocks(t.Space)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeStore()) }()

	// A pod that dies during the job must not cost more than its run: so the TTL
	// is shorter than the period. While a pod lives its lease is renewed.
	locks, err := rowlock.New(store, rowlock.Options{TTL: time.Second})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, timed.Within(5*time.Second, locks.Close)) }()

	job := func(ctx context.Context, lease *rowlock.Lease) error {
		began := time.Now()
		info, err := locks.Inspect(ctx, jobKey)
		if err != nil {
			return err
		}
		if err := parent.Send(event{Began: true, Token: lease.Token(), At: began, Since: info.Since}); err != nil {
			return err
		}
		if err := timed.Sleep(ctx, t.Schedule.Job); err != nil { // the work
			return err
		}
		return parent.Send(event{Token: lease.Token(), At: time.Now()})
	}
	err = rowlock.Every(ctx, locks, jobKey, t.Schedule.Period, job)
	if ctx.Err() != nil {
		return nil // the parent has seen enough
	}
	return err
}
