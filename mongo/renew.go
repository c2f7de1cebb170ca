package mongolock

import (
	"context"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/patience"
	"github.com/rowlock/rowlock/internal/split"
	"github.com/rowlock/rowlock/mongo/internal/command"
	"github.com/rowlock/rowlock/mongo/internal/document"
)

// Renew is called by the Client that rowlock.New makes. It implements driver.Store: one command for all holds. If a foreign
// transaction blocks one document, the others are renewed all the same (package split),
// so that only that one is Unknown.
//
// The expiry never moves back: the renewal may be the late ghost of an earlier
// one. What the update did not match is read at the majority, not before the
// moment of the update, because a primary that was deposed without knowing still
// answers a local read with a state in which the hold lives.
func (s *Store) Renew(ctx context.Context, holds []driver.Hold) ([]driver.Result, error) {
	if err := s.enterMany(ctx, "renew", len(holds), maxRenewals); err != nil {
		return nil, err
	}
	if len(holds) == 0 {
		return nil, nil
	}
	ctx = command.ForRenewals(ctx)
	if slices.ContainsFunc(holds, func(h driver.Hold) bool { return h.Confirm }) {
		return s.renewAndConfirm(ctx, holds)
	}
	return s.renew(ctx, holds)
}

// renewAndConfirm is a renewal of holds of which some were passed the key: those go singly.
func (s *Store) renewAndConfirm(ctx context.Context, holds []driver.Hold) ([]driver.Result, error) {
	results := make([]driver.Result, len(holds))
	var plain []int
	steps := []func(){}
	for i, h := range holds {
		if h.Confirm {
			steps = append(steps, func() {
				switch results[i] = s.confirm(ctx, h); results[i].Status {
				case driver.Alive, driver.Pinned, driver.Unknown:
				default:
					s.txSessions.Drop(h)
				}
			})
		} else {
			plain = append(plain, i)
		}
	}
	if len(plain) > 0 {
		steps = append(steps, func() {
			renewed, err := s.renew(ctx, pick(holds, plain))
			for n, i := range plain {
				if err != nil {
					results[i] = unknown(s.cmd.Fail(ctx, "renew "+names(keysOf(holds)), err))
				} else {
					results[i] = renewed[n]
				}
			}
		})
	}
	split.InParallel(len(steps), split.Parts, func(i int) { steps[i]() })
	if len(results) == 1 && results[0].Status == driver.Unknown {
		return nil, results[0].Err
	}
	return results, nil
}

// renew is Renew of holds that have told what they asked for.
func (s *Store) renew(ctx context.Context, holds []driver.Hold) ([]driver.Result, error) {
	r := &renewal{s: s, holds: holds, results: make([]driver.Result, len(holds)), began: time.Now()}
	var err error
	if len(holds) == 1 {
		err = r.Send(ctx, []int{0}, blockWait)
	} else {
		// They are answered together: not so late that those which were renewed are lost for others whose documents are busy.
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, patience.OfRenewals(holds))
		defer cancel()
		// One after the other: thousands of leases are to be renewed on two connections.
		err = split.Run(ctx, r, split.Order(len(holds), func(i int) string { return holds[i].Key }), &s.limits.renew, 1)
	}
	if err != nil {
		return nil, s.cmd.Fail(ctx, "renew "+names(keysOf(holds)), err)
	}
	for i, res := range r.results {
		if res.Status != driver.Alive && res.Status != driver.Unknown {
			s.txSessions.Drop(holds[i])
		}
	}
	return r.results, nil
}

// renewal is one Renew.
type renewal struct {
	s       *Store
	holds   []driver.Hold
	results []driver.Result
	began   time.Time
}

// Send renews the entries by one command.
func (r *renewal) Send(ctx context.Context, entries []int, wait time.Duration) error {
	holds, start := pick(r.holds, entries), time.Now()
	reply, err := r.s.cmd.Write(ctx, nil, document.Renew(r.s.leases, holds), wait)
	if err != nil {
		return stopOf(err)
	}
	if len(holds) > 1 {
		r.s.limits.renew.Observe(len(holds), time.Since(start))
	}
	if command.Matched(reply.Raw) >= int64(len(holds)) {
		for _, i := range entries {
			r.results[i].Status = driver.Alive
		}
		return nil
	}
	fates, _, err := r.s.fates(ctx, reply.Raw, holds, document.Loss)
	if err != nil {
		return err
	}
	for n, i := range entries {
		r.results[i].Status = fates[n]
	}
	return nil
}

// Resend is Send: a renewal may be repeated.
func (r *renewal) Resend(ctx context.Context, entries []int, wait time.Duration) error {
	return r.Send(ctx, entries, wait)
}

// Progress finds those that a command renewed before it was stopped: their expiry is
// later than any earlier command could have made it. How long they are good for is
// what is left of it.
func (r *renewal) Progress(ctx context.Context, stop error, entries []int) (single, rest []int, known bool) {
	states, known := r.s.afterStop(ctx, stop, pick(r.holds, entries))
	if !known {
		return nil, nil, false
	}
	since := time.Since(r.began)
	for _, i := range entries {
		h := r.holds[i]
		doc, there := states[h.Key]
		switch st := document.Loss(doc, there, h); {
		case st != driver.Alive:
			r.results[i].Status = st
		case doc.LeftOf(h) > h.TTL/2 && doc.LeftOf(h) >= h.TTL-since:
			r.results[i] = driver.Result{Status: driver.Alive, Left: doc.LeftOf(h)}
		case single == nil:
			single = []int{i}
		default:
			rest = append(rest, i)
		}
	}
	return single, rest, true
}

func (r *renewal) Single(ctx context.Context, entry int, _ bool) bool {
	err := r.Send(ctx, []int{entry}, partWait)
	if err != nil {
		r.Fail(ctx, []int{entry}, err)
	}
	return split.Stopped(err)
}

func (r *renewal) Fail(ctx context.Context, entries []int, err error) {
	failed := r.s.cmd.Fail(ctx, "renew "+names(keysOf(pick(r.holds, entries))), err)
	for _, i := range entries {
		r.results[i] = unknown(failed)
	}
}

// fates reads what became of holds, by fate, at the majority and not before the moment of
// reply, and whether one of the keys has a line. A standalone server has no such moment, and no other node either.
func (s *Store) fates(ctx context.Context, reply bson.Raw, holds []driver.Hold, fate func(document.State, bool, driver.Hold) driver.Status) (fates []driver.Status, lined bool, err error) {
	states, err := s.statesOf(ctx, holds, command.OperationTime(reply))
	if err != nil {
		return nil, false, err
	}
	fates = make([]driver.Status, len(holds))
	for i, h := range holds {
		r, ok := states[h.Key]
		fates[i], lined = fate(r, ok, h), lined || r.Lined
	}
	return fates, lined, nil
}
