package gocronlock_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/rowlock/rowlock"
	gocronlock "github.com/rowlock/rowlock/adapters/gocron"
)

// nobody is a Locker that breaks its contract.
type nobody struct{}

func (nobody) Acquire(context.Context, string, ...rowlock.Option) (*rowlock.Lease, error) {
	return nil, nil
}
func (nobody) TryAcquire(context.Context, string, ...rowlock.Option) (*rowlock.Lease, error) {
	return nil, nil
}

// TestP9_NilArguments: without a Locker a tick is an error that says so, not a panic.
func TestP9_NilArguments(t *testing.T) {
	ctx := t.Context()
	var noClient *rowlock.Client
	lock := func(l rowlock.Locker) error {
		_, err := gocronlock.NewLocker(l).Lock(ctx, "job")
		return err
	}
	elected := gocronlock.NewElector(nil, "leader")
	for _, c := range []struct {
		name string
		do   func() error
		want string
	}{
		{"Locker", func() error { return lock(nil) }, "the Locker is nil: give NewLocker the Client that rowlock.New made"},
		{"Client", func() error { return lock(noClient) }, "the Client is nil"},
		{"Locker without", func() error { return lock(nobody{}) }, "nobody"},
		{"Locker of an Elector", func() error { return elected.Run(ctx) }, "the Locker is nil"},
		{"its answer", func() error { return elected.IsLeader(ctx) }, "the Locker is nil"},
		{"Client of an Elector", func() error { return gocronlock.NewElector(noClient, "leader").Run(ctx) }, "the Client is nil"},
	} {
		if err := c.do(); !errors.Is(err, rowlock.ErrInvalid) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("P9: %s: %v, want ErrInvalid and %q", c.name, err, c.want)
		}
	}
}
