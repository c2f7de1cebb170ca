package session

import "sync"

// phases is what this Store knows of keys that were in a phase: an exclusive attempt for such a
// one goes another way, see throughPhase. Of a key that never was in one it knows nothing, so
// that this costs what it would without phases. It may be wrong: others begin and end phases.
// Then the attempt costs two trips more.
type phases struct {
	mu   sync.Mutex
	last map[string]bool // by key: whether it was in a phase when it was seen last
}

// mostPhases bounds the keys. It forgets all of them when there are more.
const mostPhases = 4096

// saw notes whether a key is in a phase.
func (p *phases) saw(key string, inPhase bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch _, known := p.last[key]; {
	case known:
	case !inPhase:
		return
	case p.last == nil, len(p.last) >= mostPhases:
		p.last = make(map[string]bool)
	}
	p.last[key] = inPhase
}

// known reports whether the key was ever seen in a phase, and whether it was when it was seen last.
func (p *phases) known(key string) (ever, last bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	last, ever = p.last[key]
	return ever, last
}
