package fault

import (
	"slices"
	"strings"
	"testing"
	"time"
)

func TestSlow(t *testing.T) {
	each(t, "slow", func(t *testing.T, l *lab, f Fault) {
		l.until(t, f, func(what string, ops []op) bool {
			text, _, _ := strings.Cut(what[strings.Index(what, ", ")+2:], " for")
			latency, err := time.ParseDuration(text)
			if err != nil {
				return false // one member only
			}
			return slices.ContainsFunc(ops, func(o op) bool { return o.err == nil && o.took() >= latency })
		})
	})
}

func TestTrickle(t *testing.T) {
	each(t, "trickle", func(t *testing.T, l *lab, f Fault) {
		before := l.insert(t.Context(), time.Second)
		l.until(t, f, func(_ string, ops []op) bool {
			return slices.ContainsFunc(ops, func(o op) bool { return o.took() > before.took()+2*time.Millisecond })
		})
	})
}

func TestCut(t *testing.T) {
	each(t, "cut", func(t *testing.T, l *lab, f Fault) {
		l.until(t, f, func(_ string, ops []op) bool {
			return slices.ContainsFunc(ops, func(o op) bool { return o.err != nil })
		})
	})
}

func TestRefused(t *testing.T) {
	each(t, "refused", func(t *testing.T, l *lab, f Fault) {
		l.until(t, f, func(_ string, ops []op) bool {
			return slices.ContainsFunc(ops, func(o op) bool {
				return o.err != nil && (l.coll != nil || strings.Contains(o.err.Error(), "refused"))
			})
		})
	})
}

// TestHalfOpen: a call hangs until its deadline, and is not executed; the connection
// does not end.
func TestHalfOpen(t *testing.T) {
	each(t, "half-open", func(t *testing.T, l *lab, f Fault) {
		l.until(t, f, func(_ string, ops []op) bool {
			return slices.ContainsFunc(ops, func(o op) bool { return o.err != nil && o.took() >= l.TTL && !l.applied(t, o) })
		})
	})
}

// TestIdleDead: a call on a connection that was there hangs until its deadline and is
// not executed, and the next is, on a new one.
func TestIdleDead(t *testing.T) {
	each(t, "idle-dead", func(t *testing.T, l *lab, f Fault) {
		l.until(t, f, func(_ string, ops []op) bool {
			hung := slices.IndexFunc(ops, func(o op) bool { return o.err != nil && o.took() >= l.TTL && !l.applied(t, o) })
			return hung >= 0 && slices.ContainsFunc(ops[hung:], func(o op) bool { return o.err == nil })
		})
	})
}

// TestDistance: every call takes a round trip at least.
func TestDistance(t *testing.T) {
	each(t, "distance", func(t *testing.T, l *lab, f Fault) {
		l.until(t, f, func(what string, ops []op) bool {
			return !strings.Contains(what, "member") && slices.ContainsFunc(ops, func(o op) bool { return o.err == nil && o.took() >= 50*time.Millisecond })
		})
	})
}

// TestReplyDropped: a statement was executed, and its reply never came.
func TestReplyDropped(t *testing.T) {
	each(t, "reply-dropped", func(t *testing.T, l *lab, f Fault) {
		l.until(t, f, func(_ string, ops []op) bool {
			return slices.ContainsFunc(ops, func(o op) bool { return o.err != nil && l.applied(t, o) })
		})
	})
}

// TestRequestLate: a statement was not executed when its client gave up, and is later.
func TestRequestLate(t *testing.T) {
	each(t, "request-late", func(t *testing.T, l *lab, f Fault) {
		for range 6 {
			early := map[int64]bool{} // what was there soon after its client was told that it failed
			failed := make(chan op, 1000)
			done := make(chan []op)
			go func() {
				var ops []op
				for o := range failed {
					early[o.id] = l.applied(t, o)
					ops = append(ops, o)
				}
				done <- ops
			}()
			l.onFailure = func(o op) { failed <- o }
			l.during(t, f)
			l.onFailure = nil
			close(failed)
			if slices.ContainsFunc(<-done, func(o op) bool { return !early[o.id] && l.applied(t, o) }) {
				return
			}
		}
		t.Error("nothing came late")
	})
}
