// Package latency measures a store for its Doctor: a statement, and a lock.
package latency

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/rowlock/rowlock/doctor"
	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/numbers"
)

// Of is what the Doctor of a Store measures of it.
type Of struct {
	Statement   func(context.Context) error // does nothing, once
	Skip        string                      // why no lock is taken; empty: a lock of a key of our own is
	Forget      func(key string)            // removes what the Store keeps of that key, which nobody else has used
	Works       string                      // ID of the finding that a lock can be taken
	Slow, Short string                      // the same: renewals are slow for the TTL, the TTL is short for a failover
	Failover    time.Duration               // how long one takes
}

// Measure measures the statement and the steps of a lock, and adds to the report what that is for a TTL.
func (l Of) Measure(ctx context.Context, s driver.Store, o doctor.Options, r *doctor.Report) error {
	var statements []time.Duration
	for range o.Samples {
		start := time.Now()
		if err := l.Statement(ctx); err != nil {
			return err
		}
		statements = append(statements, time.Since(start))
	}
	r.Statement = doctor.QuantilesOf(statements)
	if l.Skip == "" {
		err := l.steps(ctx, s, o, r)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			l.Skip = err.Error()
			r.Add(l.Works, doctor.Fail, l.Skip)
		} else {
			r.Add(l.Works, doctor.OK, "yes")
		}
	} else {
		r.Add(l.Works, doctor.Skipped, l.Skip)
	}
	if l.Skip != "" {
		r.Add(l.Slow, doctor.Skipped, l.Skip)
		r.Add(l.Short, doctor.Skipped, l.Skip)
		return nil
	}
	r.Judge(l.Slow, l.Short, o, l.Failover)
	return nil
}

// steps takes, renews and releases a lock o.Samples times. The first round, which opens connections, does not count.
func (l Of) steps(ctx context.Context, s driver.Store, o doctor.Options, r *doctor.Report) error {
	key := "rowlock.doctor." + rand.Text()
	defer l.Forget(key)
	var commits, renewals []time.Duration
	client := numbers.Client()
	for range o.Samples + 1 {
		q := driver.Request{Key: key, Owner: "rowlock doctor", TTL: max(o.TTL, s.Limits().MinTTL), Client: client}
		_, _ = rand.Read(q.ID[:])
		start := time.Now()
		granted, err := again(ctx, o.TTL/3, driver.IsNotApplied, func() ([]driver.Result, error) {
			return s.Acquire(ctx, []driver.Request{q})
		})
		commits = append(commits, time.Since(start))
		if err == nil && granted.Status != driver.Granted {
			err = fmt.Errorf("a key that nobody else uses was not granted: it is %v", granted.Status)
		}
		if err != nil {
			return err
		}
		h := []driver.Hold{{Key: key, ID: q.ID, Token: granted.Token, Stored: granted.Stored, TTL: q.TTL}}
		start = time.Now()
		renewed, err := again(ctx, o.TTL/3, anyError, func() ([]driver.Result, error) { return s.Renew(ctx, h) })
		renewals = append(renewals, time.Since(start))
		if err == nil && renewed.Status != driver.Alive {
			err = fmt.Errorf("a key that nobody else uses was not renewed: it is %v", renewed.Status)
		}
		_, freed := again(ctx, o.TTL/3, anyError, func() ([]driver.Result, error) { return s.Release(ctx, h) })
		if err := errors.Join(err, freed); err != nil {
			return err
		}
	}
	r.Commit, r.Renewal = doctor.QuantilesOf(commits[1:]), doctor.QuantilesOf(renewals[1:])
	return nil
}

// again repeats a step that has failed but need not fail next time, as those do who use locks: its time counts from the
// first try on. may says after which errors the same step may be sent once more.
func again(ctx context.Context, patience time.Duration, may func(error) bool, step func() ([]driver.Result, error)) (driver.Result, error) {
	for end := time.Now().Add(patience); ; {
		result, err := one(step())
		if err == nil || driver.IsLasting(err) || !may(err) || ctx.Err() != nil || time.Now().After(end) {
			return result, err
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Millisecond): // an error may come at once
		}
	}
}

func anyError(error) bool { return true } // a renewal and a release name their hold

// one is the answer to a call for one key.
func one(results []driver.Result, err error) (driver.Result, error) {
	if err != nil {
		return driver.Result{}, err
	}
	return results[0], results[0].Err
}
