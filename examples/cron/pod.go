package main

import (
	"context"
	"errors"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/examples/internal/fleet"
	"github.com/rowlock/rowlock/examples/internal/timed"
)

// podTask is what a pod is told.
type podTask struct {
	Schedule schedule
	Space    string
	Pod      int           // 1, 2, …
	Late     time.Duration // how far its clock is behind
}

// What came of a tick in one pod.
type event struct {
	Tick    int // 0: the pod is ready
	Kind    kind
	At      time.Time // when it asked for the key
	Token   int64
	Problem string
}

type kind string

const (
	ran    kind = "ran"    // reported from inside the job, so that even a pod that dies then has reported
	refuse kind = "refuse" // another pod has the tick
	alert  kind = "alert"  // anything else: somebody must look
	done   kind = "done"   // the job is over and the key is released
)

// playPod is one pod: at each tick of its clock it runs the job if it is the first.
func playPod(ctx context.Context, parent *fleet.Parent) (err error) {
	var t podTask
	if err := parent.Receive(&t); err != nil {
		return err
	}
	store, closeStore, err := openStore(t.Schedule.Backend, t.Space)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeStore()) }()

	// A pod that dies during the job must not cost more than its tick: so the TTL
	// is shorter than the period. While a pod lives its lease is renewed.
	locks, err := rowlock.New(store, rowlock.Options{TTL: time.Second})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, timed.Within(5*time.Second, locks.Close)) }()
	if _, err := locks.Inspect(ctx, jobKey); err != nil {
		return err
	}

	if err := parent.Send(event{}); err != nil {
		return err
	}
	var begin time.Time // of the schedule, by the right clock
	if err := parent.Receive(&begin); err != nil {
		return err
	}
	for tick := 1; tick <= t.Schedule.Ticks; tick++ {
		due := begin.Add(time.Duration(tick-1) * t.Schedule.Period)
		if err := timed.Sleep(ctx, time.Until(due.Add(t.Late))); err != nil {
			return err
		}
		if err := parent.Send(t.Schedule.onTick(ctx, locks, parent, tick)); err != nil {
			return err
		}
	}
	return nil
}

const jobKey = "report"

// onTick is all that a program needs to run a job once over many pods.
func (s schedule) onTick(ctx context.Context, locks rowlock.Locker, parent *fleet.Parent, tick int) event {
	e := event{Tick: tick, At: time.Now()}
	job := func(ctx context.Context, lease *rowlock.Lease) error {
		e.Token = lease.Token()
		if err := parent.Send(event{Tick: tick, Kind: ran, At: e.At, Token: e.Token}); err != nil {
			return err
		}
		return timed.Sleep(ctx, s.Job)
	}
	err := rowlock.Do(ctx, locks, jobKey, job, rowlock.NoWait(), rowlock.MinHold(s.MinHold))
	switch {
	case err == nil:
		e.Kind = done
	case errors.Is(err, rowlock.ErrHeld): // another pod has this tick
		e.Kind = refuse
	default:
		e.Kind, e.Problem = alert, err.Error()
	}
	return e
}
