package fault

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rowlock/rowlock/dev/testenv"
	"github.com/rowlock/rowlock/dev/verify/timed"
)

func networkFaults() []Fault {
	return []Fault{
		Fault{Name: "slow", Kinds: anywhere, Weight: 2, Uses: []string{network},
			What:   "the network takes milliseconds to a quarter of the TTL, each way, unevenly",
			Expect: "everything; a lease whose renewals take too long is lost, with the signal"}.by(slow),
		Fault{Name: "trickle", Kinds: anywhere, Weight: 1, Uses: []string{network},
			What:   "a few KB a second pass, in slices of some bytes",
			Expect: "everything; a lease whose renewals take too long is lost, with the signal"}.by(trickle),
		Fault{Name: "cut", Kinds: anywhere, Weight: 2, Uses: []string{network},
			What: "all connections of some processes are reset, again and again",
			Expect: "everything; the outcome of what was under way is unknown for a moment (P6, P7). SelectForUpdate frees the key " +
				"at the reset and its holder learns it within min(TTL/10, 1 s): the exception to P2"}.by(cut),
		Fault{Name: "refused", Kinds: anywhere, Weight: 2, Uses: []string{network},
			What:   "connections are reset and new ones refused",
			Expect: "everything, as with cut; leases are lost, with the signal, when it lasts"}.by(refused),
		Fault{Name: "half-open", Kinds: anywhere, Weight: 3, Uses: []string{network},
			What: "nothing passes in either direction, connections stay open, new ones open and hang; in the end they are reset",
			Expect: "everything; leases are lost, with the signal. What a hold leaves behind ends within a TTL; a SelectForUpdate session " +
				"that the server still has ends by its wait_timeout, the TTL in whole seconds, or when the silence ends, " +
				"by a reset: the exception to P2, as with cut"}.by(halfOpen),
		Fault{Name: "idle-dead", Kinds: anywhere, Weight: 3, Uses: []string{network},
			What: "what goes over the connections that are there is swallowed, as by a firewall that has forgotten them; new ones work; in the end the old are reset",
			Expect: "everything: the server is well, and after a second without a byte the library asks on a new connection; leases whose TTL leaves no " +
				"time for that are lost, with the signal. SelectForUpdate: the exception to P2, as with half-open"}.by(idleDead),
		Fault{Name: "distance", Kinds: anywhere, Weight: 2, Uses: []string{network},
			What:   "the server is far away: a round trip takes 50 or 300 ms, evenly",
			Expect: "everything; with a TTL of a few round trips leases may be lost, with the signal. A key that nobody has is not told to be held"}.by(distance),
		Fault{Name: "reply-dropped", Kinds: anywhere, Weight: 4, Uses: []string{network},
			What: "requests are executed; replies to acquire, renew, release or commit vanish at random, with the connection",
			Expect: "everything: no second holder, no hold longer than a TTL that nobody knows of (P7), an effect of Once exactly once (P13). " +
				"SelectForUpdate: the exception to P2, as with cut"}.by(replyDropped),
		Fault{Name: "request-late", Kinds: anywhere, Weight: 3, Uses: []string{network},
			What: "a request is held back, its client is sent away, and at most 0.9 TTL after it was sent it arrives",
			Expect: "everything: what comes late names its hold and changes nothing of another's (P5). Later than a TTL nothing is promised. " +
				"SelectForUpdate: the exception to P2, as with cut"}.by(requestLate),
	}
}

// linesOf are the lines of some processes; on a replica set perhaps to one member only.
func (s *scene) linesOf() (lines []*line, text string) {
	proxies := some(s, s.Proxies)
	text = fmt.Sprintf("%d of %d processes", len(proxies), len(s.Proxies))
	member := -1
	if s.Kind == testenv.Mongo3 && s.rand.IntN(3) == 0 {
		member = s.rand.IntN(3)
		text += fmt.Sprintf(", member %d", member)
	}
	for _, p := range proxies {
		for i, l := range p.lines {
			if member < 0 || member == i {
				lines = append(lines, l)
			}
		}
	}
	return lines, text
}

// shape makes what passes slow or silent for a while.
func shape(ctx context.Context, lines []*line, d time.Duration, add func(*line) error) (err error) {
	defer func() {
		err = errors.Join(err, notWhole(forget(ctx, lines)))
	}()
	for _, l := range lines {
		if err := add(l); err != nil {
			return err
		}
	}
	timed.Rest(ctx, d)
	return nil
}

func slow(ctx context.Context, s *scene) (string, error) {
	lines, text := s.linesOf()
	d, latency := s.while(), s.between(2*time.Millisecond, s.TTL/4)
	err := shape(ctx, lines, d, func(l *line) error {
		return l.add("latency", map[string]any{"latency": latency.Milliseconds(), "jitter": latency.Milliseconds() / 2})
	})
	return fmt.Sprintf("%s, %v for %v", text, latency, d), err
}

func trickle(ctx context.Context, s *scene) (string, error) {
	lines, text := s.linesOf()
	d, rate, delay := s.while(), 2+s.rand.IntN(8), s.between(time.Millisecond, 5*time.Millisecond)
	err := shape(ctx, lines, d, func(l *line) error {
		if err := l.add("slicer", map[string]any{"average_size": 32, "size_variation": 16, "delay": delay.Microseconds()}); err != nil {
			return err
		}
		return l.add("bandwidth", map[string]any{"rate": rate})
	})
	return fmt.Sprintf("%s, %d KB/s for %v", text, rate, d), err
}

func halfOpen(ctx context.Context, s *scene) (string, error) {
	lines, text := s.linesOf()
	d := s.while()
	err := shape(ctx, lines, d, func(l *line) error {
		l.hush()
		return l.add("timeout", map[string]any{"timeout": 0})
	})
	for _, l := range lines {
		l.noise()
	}
	return fmt.Sprintf("%s for %v", text, d), err
}

func idleDead(ctx context.Context, s *scene) (string, error) {
	lines, text := s.linesOf()
	d, n := s.between(s.TTL, 2*s.TTL), 0
	for _, l := range lines {
		exhume, dead := l.bury()
		defer exhume()
		n += dead
	}
	timed.Rest(ctx, d)
	return fmt.Sprintf("%s, %d connections for %v", text, n, d), nil
}

func distance(ctx context.Context, s *scene) (string, error) {
	lines, text := s.linesOf()
	d, trip := s.between(s.TTL, 3*s.TTL), 50*time.Millisecond
	if s.rand.IntN(2) == 0 {
		trip = 300 * time.Millisecond
	}
	err := shape(ctx, lines, d, func(l *line) error {
		return l.add("latency", map[string]any{"latency": (trip / 2).Milliseconds()})
	})
	return fmt.Sprintf("%s, %v for %v", text, trip, d), err
}

func cut(ctx context.Context, s *scene) (string, error) {
	lines, text := s.linesOf()
	times, n := 1+s.rand.IntN(4), 0
	for range times {
		for _, l := range lines {
			n += l.cut()
		}
		timed.Rest(ctx, s.between(10*time.Millisecond, s.TTL/4))
	}
	return fmt.Sprintf("%s, %d connections in %d cuts", text, n, times), nil
}

func refused(ctx context.Context, s *scene) (what string, err error) {
	lines, text := s.linesOf()
	d := s.while()
	for _, l := range lines {
		l.down()
		l.cut()
	}
	timed.Rest(ctx, d)
	for _, l := range lines {
		err = errors.Join(err, notWhole(l.up()))
	}
	return fmt.Sprintf("%s for %v", text, d), err
}

func replyDropped(ctx context.Context, s *scene) (string, error) {
	c := &chance{drop: 0.03 + 0.2*s.rand.Float64()}
	return s.play(ctx, c, "replies")
}

func requestLate(ctx context.Context, s *scene) (string, error) {
	c := &chance{late: 0.03 + 0.15*s.rand.Float64(), hold: s.TTL * 9 / 10}
	return s.play(ctx, c, "requests")
}

// play lets single requests or replies have their chance for a while, and returns
// when those that are held back have arrived.
func (s *scene) play(ctx context.Context, c *chance, unit string) (string, error) {
	lines, text := s.linesOf()
	c.rand = seeded(s.rand.Uint64())
	d := s.while()
	for _, l := range lines {
		l.with(c)
	}
	timed.Rest(ctx, d)
	for _, l := range lines {
		l.with(nil)
	}
	for _, l := range lines {
		l.late.Wait()
	}
	return fmt.Sprintf("%s, %d %s in %v", text, c.hits(), unit, d), nil
}
