package share

import "sync"

// phaseTokens are the tokens of phases in which slots were granted, by their keys. The
// answer to a join has room for one number, the token of the slot; so it says whether the
// phase is the one that is known, and only where it is not the row is read.
type phaseTokens struct {
	mu     sync.Mutex
	tokens map[string]int64
}

// mostPhases is how many are kept; more, and all are forgotten, which costs a read each.
const mostPhases = 10000

// known is the token of the key's phase, when it was last seen; 0: not known.
func (p *phaseTokens) known(key string) int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.tokens[key]
}

// note notes the token of the key's phase.
func (p *phaseTokens) note(key string, token int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.tokens == nil || len(p.tokens) >= mostPhases {
		p.tokens = make(map[string]int64)
	}
	p.tokens[key] = token
}
