package rowlockcli

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/driver"
)

// secure renews the leases before the command starts, so that the connection for renewals and the release is open: a
// server that has none left then would keep the key until the lease ends.
func (r *run) secure() error {
	ctx, cancel := context.WithTimeout(r.lease.Context(context.Background()), time.Duration(r.f.ttl)/3)
	defer cancel()
	errs := make([]error, len(r.lease.leases))
	var all sync.WaitGroup
	for i, lease := range r.lease.leases { // side by side: in one statement
		all.Go(func() { errs[i] = renewSoon(ctx, lease) })
	}
	all.Wait()
	err := errors.Join(errs...)
	if err == nil {
		return nil
	}
	code := ExitCode(err)
	if errors.Is(err, rowlock.ErrLost) {
		code = exitUnavailable // nothing was run
	}
	return &ExitError{Code: code, Err: fmt.Errorf("the command was not run: %s was got, but the lease cannot be renewed: %s: %w", quoted(r.keys), r.store.where, err)}
}

// renewSoon renews a lease, and tries again after an error that may pass. Of an outage the first error says the cause.
func renewSoon(ctx context.Context, lease *rowlock.Lease) error {
	var first error
	for {
		err := lease.Renew(ctx)
		if first == nil {
			first = err
		}
		switch {
		case err == nil || errors.Is(err, rowlock.ErrLost) || driver.IsLasting(err):
			return err
		case ctx.Err() != nil:
			return first
		}
		select {
		case <-ctx.Done():
		case <-time.After(100 * time.Millisecond):
		}
	}
}
