package fault

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/rowlock/rowlock/dev/verify/timed"
)

func clientFaults() []Fault {
	return []Fault{
		Fault{Name: "client-killed", Kinds: anywhere, Weight: 3, Uses: []string{clients},
			What: "client processes are killed with -9; others start in their place",
			Expect: "everything; keys that they held are free within their TTL, with SelectForUpdate at once; an open guarded transaction " +
				"ends with its process (MongoDB: the next to be granted the key ends it)"}.by(clientKilled),
		Fault{Name: "client-frozen-long", Kinds: anywhere, Weight: 3, Uses: []string{clients},
			What:   "client processes are stopped (SIGSTOP) for longer than the TTL",
			Expect: "everything; at its first look a holder that was frozen knows that its lease is lost. A write outside of the database between a look and the write needs the token"}.by(clientFrozenLong),
		Fault{Name: "client-frozen-short", Kinds: anywhere, Weight: 2, Uses: []string{clients},
			What:   "client processes are stopped for less than the TTL",
			Expect: "everything; leases may be lost, with the signal"}.by(clientFrozenShort),
		Fault{Name: "client-clock-stepped", Kinds: anywhere, Weight: 2, Uses: []string{clients},
			What:   "the wall clocks of client processes step by up to an hour, and back",
			Expect: "everything, and no lease is lost by it: only the clock that goes on counts"}.by(clientClockStepped),
	}
}

// someClients are some of the processes that live, and their names.
func (s *scene) someClients() (list []Client, names string) {
	if s.Clients == nil {
		return nil, ""
	}
	list = some(s, s.Clients())
	all := make([]string, len(list))
	for i, c := range list {
		all[i] = c.Name()
	}
	return list, strings.Join(all, ", ")
}

func clientKilled(_ context.Context, s *scene) (string, error) {
	list, names := s.someClients()
	var errs []error
	for _, c := range list {
		errs = append(errs, c.Kill())
	}
	return names, errors.Join(errs...)
}

func clientFrozenLong(ctx context.Context, s *scene) (string, error) {
	return s.freeze(ctx, s.between(s.TTL*11/10, s.TTL*5/2))
}

func clientFrozenShort(ctx context.Context, s *scene) (string, error) {
	return s.freeze(ctx, s.between(s.TTL/20, s.TTL*9/10))
}

func (s *scene) freeze(ctx context.Context, d time.Duration) (string, error) {
	list, names := s.someClients()
	if len(list) == 0 {
		return "", nil
	}
	var errs []error
	for _, c := range list {
		errs = append(errs, c.Freeze())
	}
	timed.Rest(ctx, d)
	for _, c := range list {
		errs = append(errs, c.Thaw())
	}
	return fmt.Sprintf("%s for %v", names, d), errors.Join(errs...)
}

func clientClockStepped(ctx context.Context, s *scene) (string, error) {
	list, names := s.someClients()
	if len(list) == 0 {
		return "", nil
	}
	step, d := s.step(), s.while()
	var errs []error
	for _, c := range list {
		errs = append(errs, c.StepWallClock(step))
	}
	timed.Rest(ctx, d)
	for _, c := range list {
		errs = append(errs, c.StepWallClock(0))
	}
	return fmt.Sprintf("%s by %v for %v", names, step, d), errors.Join(errs...)
}

// step is what a clock is off by: an hour, or about a TTL, ahead or behind.
func (s *scene) step() time.Duration {
	d := time.Hour
	if s.rand.IntN(2) == 0 {
		d = s.between(s.TTL/2, 2*s.TTL)
	}
	if s.rand.IntN(2) == 0 {
		d = -d
	}
	return d
}
