package storekit

import (
	"context"

	"github.com/rowlock/rowlock/driver"
)

// Admit makes an acquire of which the Fair requests wait for their turn: those behind a ticket of
// others, as places says, are refused, and acquire gets the rest. Where none is Fair it is acquire.
func Admit(ctx context.Context, reqs []driver.Request, places func(context.Context, []driver.Ticket) ([]driver.Place, error),
	acquire func(context.Context, []driver.Request) ([]driver.Result, error)) ([]driver.Result, error) {
	var tickets []driver.Ticket
	var at []int // in reqs
	for i := range reqs {
		if q := &reqs[i]; q.Fair {
			tickets, at = append(tickets, driver.Ticket{Key: q.Key, ID: q.Ticket, Seq: q.Seq}), append(at, i)
		}
	}
	if len(tickets) == 0 {
		return acquire(ctx, reqs)
	}
	found, err := places(ctx, tickets)
	if err != nil {
		return nil, err
	}
	results := make([]driver.Result, len(reqs))
	for n, i := range at {
		if p := found[n]; p.Ahead > 0 {
			results[i] = driver.Result{Status: driver.Held, Ahead: p.Ahead, Left: p.Left}
		}
	}
	var some []driver.Request
	at = at[:0]
	for i := range reqs {
		if results[i].Ahead == 0 {
			some, at = append(some, reqs[i]), append(at, i)
		}
	}
	if len(some) == 0 {
		return results, nil
	}
	admitted, err := acquire(ctx, some)
	if err != nil && len(some) == len(reqs) {
		return nil, err
	}
	for n, i := range at {
		if err != nil {
			results[i] = driver.Result{Err: err}
		} else {
			results[i] = admitted[n]
		}
	}
	return results, nil
}

// Inform adds to Infos who waits for their keys, as lines says.
func Inform(ctx context.Context, lines func(ctx context.Context, keys []string) ([]driver.Line, error), infos ...*driver.Info) error {
	if len(infos) == 0 {
		return nil
	}
	keys := make([]string, len(infos))
	for i, info := range infos {
		keys[i] = info.Key
	}
	found, err := lines(ctx, keys)
	for i := range found {
		found[i].Inform(infos[i])
	}
	return err
}
