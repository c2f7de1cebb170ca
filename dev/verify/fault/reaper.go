package fault

import (
	"context"
	"time"

	"github.com/rowlock/rowlock/dev/verify/timed"
)

func reaperFaults() []Fault {
	return []Fault{
		Fault{Name: "reaping", Kinds: anywhere, Weight: 2, Uses: []string{"reaper"},
			What:   "the reaper runs again and again",
			Expect: "everything: it never ends a live hold (P10), and tokens of a key that comes back are larger (P3)"}.by(reaping),
		Fault{Name: "force-release", Kinds: anywhere, Weight: 1, Uses: []string{"reaper"},
			What: "an operator releases hot keys of a space by force",
			Expect: "everything but P2, and so P1, for the keys: their holders learn of it at the next renewal. What they guard does not commit after " +
				"the next grant (P4), and tokens rise (P3)"}.by(forceRelease),
	}
}

func forceRelease(ctx context.Context, s *scene) (string, error) {
	if s.Force == nil || len(s.Spaces) == 0 {
		return "", nil
	}
	space := s.Spaces[s.rand.IntN(len(s.Spaces))]
	keys := some(s, space.Keys)
	try, stop := context.WithTimeout(ctx, s.TTL)
	defer stop()
	err := s.Force(try, space.Name, keys)
	return describe(err, "%d keys of %s", len(keys), space.Name), nil
}

func reaping(ctx context.Context, s *scene) (string, error) {
	if s.Reap == nil {
		return "", nil
	}
	d, rest, n := s.while(), s.between(time.Millisecond, 20*time.Millisecond), 0
	var last error
	for end := time.Now().Add(d); time.Now().Before(end) && ctx.Err() == nil; timed.Rest(ctx, rest) {
		try, stop := context.WithTimeout(ctx, s.TTL)
		if err := s.Reap(try); err == nil {
			n++
		} else {
			last = err // the server may be away: another fault is at it
		}
		stop()
	}
	return describe(last, "%d times in %v", n, d), nil
}
