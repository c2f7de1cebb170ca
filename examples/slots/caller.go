package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/examples/internal/fleet"
	"github.com/rowlock/rowlock/examples/internal/timed"
)

// key is what the processes share.
const key = "partner"

// callerTask is what a process is told.
type callerTask struct {
	Plan    plan
	Number  int // of the process
	Space   string
	Address string // of the partner
}

// playCaller calls the partner over and over, until the story is over.
func playCaller(ctx context.Context, parent *fleet.Parent) (err error) {
	var t callerTask
	if err := parent.Receive(&t); err != nil {
		return err
	}
	store, closeStore, err := t.Plan.Backend.OpenLocks(t.Space)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeStore()) }()
	locks, err := rowlock.New(store, rowlock.Options{TTL: t.Plan.TTL, Owner: fmt.Sprintf("process %d", t.Number)})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, timed.Within(5*time.Second, locks.Close)) }()

	for ctx.Err() == nil {
		began := time.Now()
		err := rowlock.Do(ctx, locks, key, func(ctx context.Context, lease *rowlock.Lease) error {
			return t.call(ctx, call{Caller: t.Number, Place: lease.Slot(), Token: lease.Token(), Waited: time.Since(began)})
		}, rowlock.Slots(t.Plan.Places))
		if err != nil && ctx.Err() == nil {
			return err
		}
		_ = timed.Sleep(ctx, rand.N(4*t.Plan.Call)) // it has other things to do
	}
	return nil
}

// call calls the partner, who must not refuse it.
func (t *callerTask) call(ctx context.Context, c call) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, t.Address, nil)
	if err != nil {
		return err
	}
	c.write(request.Header)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	said, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("the partner refuses the call with number %d: %s", c.Place, said)
	}
	return err
}
