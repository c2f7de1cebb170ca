package fault

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rowlock/rowlock/dev/verify/timed"
)

func serverFaults() []Fault {
	return []Fault{
		Fault{Name: "server-killed", Kinds: everywhere, Weight: 2, Uses: []string{server},
			What: "the server (of a replica set all members at once) is killed with -9 and started again",
			Expect: "everything: what was acknowledged is there again, tokens go on rising (P3). SelectForUpdate: keys that were used " +
				"within the last TTL can be had after it; their holders learn of the end within min(TTL/10, 1 s)"}.by(serverKilled),
		Fault{Name: "server-frozen-short", Kinds: everywhere, Weight: 2, Uses: []string{server},
			What:   "the server stands still for less than the TTL",
			Expect: "everything; leases may be lost, with the signal"}.by(serverFrozenShort),
		Fault{Name: "server-frozen-long", Kinds: everywhere, Weight: 2, Uses: []string{server},
			What:   "the server stands still for longer than the TTL",
			Expect: "everything; leases are lost, with the signal before the server goes on"}.by(serverFrozenLong),
	}
}

func serverKilled(ctx context.Context, s *scene) (string, error) {
	d := s.between(0, s.TTL)
	return fmt.Sprintf("down for %v and its start", d), s.killFor(ctx, d)
}

func serverFrozenShort(ctx context.Context, s *scene) (string, error) {
	d := s.between(s.TTL/10, s.TTL*8/10)
	return fmt.Sprint(d), s.freezeFor(ctx, d)
}

func serverFrozenLong(ctx context.Context, s *scene) (string, error) {
	d := s.between(s.TTL*11/10, 2*s.TTL)
	return fmt.Sprint(d), s.freezeFor(ctx, d)
}

// killFor kills members, or all, and starts them again after a time.
func (s *scene) killFor(ctx context.Context, d time.Duration, members ...int) error {
	err := s.Server.Kill(members...)
	timed.Rest(ctx, d)
	heal, cancel := healing(ctx)
	defer cancel()
	return errors.Join(err, notWhole(s.Server.Restart(heal, members...)))
}

// freezeFor freezes members, or all, for a time, and waits until the server is well.
func (s *scene) freezeFor(ctx context.Context, d time.Duration, members ...int) error {
	err := s.Server.Pause(members...)
	if err == nil {
		timed.Rest(ctx, d)
	}
	resumed := s.Server.Resume(members...)
	return errors.Join(err, notWhole(resumed), s.wellAgain(ctx))
}

// wellAgain is well at the end of a fault.
func (s *scene) wellAgain(ctx context.Context) error {
	heal, cancel := healing(ctx)
	defer cancel()
	return notWhole(s.well(heal))
}

// well waits until the server does its work.
func (s *scene) well(ctx context.Context) error {
	for {
		try, cancel := context.WithTimeout(ctx, 2*time.Second)
		err := s.write(try)
		cancel()
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("the server is not well again: %w", err)
		}
		timed.Rest(ctx, 20*time.Millisecond)
	}
}
