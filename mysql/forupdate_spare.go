package mysqllock

import "time"

// A session that serves one key after the other costs a cycle no more than its own
// statements; one that is opened for it costs seven more. So as many are kept as
// were lately in use at the same time. What a burst needed is closed soon after it.

// maxSpare is how many acquires are under way at the same time, and how many
// sessions are kept whatever was in use: those of acquires under way and those at
// rest, together. So a Store uses at most Options.Connections + maxSpare + the most
// keys that were held or waited for at the same time, now or in the last two recalls.
const maxSpare = 16

// recall is for how long at least it is remembered how many sessions were in use;
// at most twice as long.
const recall = 10 * time.Second

// spare decides how many sessions may rest. The lock of sessions guards it.
type spare struct {
	recall time.Duration // the constant; tests change it
	since  time.Time     // when the present span of a recall began
	most   [2]int        // most in use at the same time, in the present span and in the one before
	timer  *time.Timer   // closes what is too much when nothing else does; nil: not armed
}

// note is told how many are in use, when that grew.
func (s *spare) note(inUse int) {
	s.turn(time.Now(), inUse)
	s.most[0] = max(s.most[0], inUse)
}

// lately is the most that were in use at the same time.
func (s *spare) lately(now time.Time, inUse int) int {
	s.turn(now, inUse)
	return max(s.most[0], s.most[1])
}

// turn begins the next span when the present one is over.
func (s *spare) turn(now time.Time, inUse int) {
	switch age := now.Sub(s.since); {
	case age < s.recall:
		return
	case age < 2*s.recall:
		s.most[1] = s.most[0]
	default:
		s.most[1] = inUse
	}
	s.since, s.most[0] = now, inUse
}

// inUse is how many sessions are not at rest. The caller has the lock.
func (p *sessions) inUse() int { return p.open - len(p.idle) }

// put takes back a session that has no lock any more, for the next acquire.
func (p *sessions) put(n *session) {
	n.rested = time.Now()
	p.mu.Lock()
	keep := !n.c.broken && !p.closed
	if keep {
		p.idle = append(p.idle, n)
	}
	surplus := p.trim()
	p.mu.Unlock()
	if !keep {
		p.drop(n)
	}
	for _, n := range surplus {
		n.c.close()
	}
}

// trim takes out of those at rest the ones that the server may have ended and those
// that are too many, for the caller to close. The caller has the lock.
func (p *sessions) trim() (surplus []*session) {
	lately := p.spare.lately(time.Now(), p.inUse())
	for len(p.idle) > 0 {
		tooMany := len(p.idle)+len(p.trying) > maxSpare && p.open > lately
		if !tooMany && p.idle[0].fresh() {
			break
		}
		surplus = append(surplus, p.idle[0])
		p.idle = p.idle[1:]
		p.open--
	}
	if len(p.idle) > maxSpare && p.spare.timer == nil {
		p.spare.timer = time.AfterFunc(p.spare.recall, p.tidy)
	}
	return surplus
}

// tidy is trim for a program that takes no keys any more.
func (p *sessions) tidy() {
	p.mu.Lock()
	p.spare.timer = nil
	surplus := p.trim()
	p.mu.Unlock()
	for _, n := range surplus {
		n.c.close()
	}
}
