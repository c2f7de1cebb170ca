package fault

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rowlock/rowlock/dev/testenv"
	"github.com/rowlock/rowlock/dev/verify/timed"
)

func clockFaults() []Fault {
	return []Fault{
		Fault{Name: "clock-stepped-far", Kinds: everywhere, Weight: 2, Uses: []string{server, Clock},
			What: "the database's clock steps by an hour, ahead or back, and is right again after a while (on a replica set of all members, or of one; " +
				"a mongod is started anew in the end)",
			Expect: "P1 by that clock, P4, P5. Forward: leases end early, without the signal: the exception to P2. Back: nobody loses a lease; a key whose " +
				"holder died, or whose reply was lost, stays held until the clock is where it was. Tokens rise (P3), those of UniqueInsert as long " +
				"as the clock is not set back. Who took a place in the line of Fair while the clock was ahead is passed by those who come after it"}.by(clockSteppedFar),
		Fault{Name: "clock-stepped-little", Kinds: everywhere, Weight: 2, Uses: []string{server, Clock},
			What:   "the same by a little more than the margin, up to half a TTL",
			Expect: "the same; what stays held does so for as long as the step"}.by(clockSteppedLittle),
	}
}

func clockSteppedFar(ctx context.Context, s *scene) (string, error) {
	return s.setClock(ctx, time.Hour)
}

func clockSteppedLittle(ctx context.Context, s *scene) (string, error) {
	return s.setClock(ctx, s.between(s.TTL*11/100, s.TTL/2))
}

func (s *scene) setClock(ctx context.Context, step time.Duration) (string, error) {
	if !s.Server.Troubled() {
		return "", fmt.Errorf("its clock is the machine's: %w", errors.ErrUnsupported)
	}
	if s.rand.IntN(2) == 0 {
		step = -step
	}
	var members []int
	text := ""
	if s.Kind == testenv.Mongo3 && s.rand.IntN(2) == 0 {
		members = []int{s.rand.IntN(3)}
		text = fmt.Sprintf("member %d ", members[0])
	}
	d := s.while()
	if err := s.Server.SetClock(step, members...); err != nil {
		return "", errors.Join(err, notWhole(s.Server.SetClock(0)))
	}
	timed.Rest(ctx, d)
	err := notWhole(s.Server.SetClock(0))
	if isMongo(s.Kind) && step.Abs() == time.Hour {
		// mongod's timers go by its wall clock: after such a step they sleep for
		// minutes, and a replica set elects nobody.
		err = errors.Join(err, s.killFor(ctx, 0, members...), s.wellAgain(ctx))
	}
	time.Sleep(50 * time.Millisecond) // mongod looks at its clock now and then
	return fmt.Sprintf("%sby %v for %v", text, step, d), err
}
