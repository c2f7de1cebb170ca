package ui

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"sync"
	"time"
)

const (
	// passedTime is how long a password that was right is not checked again.
	passedTime = time.Minute

	// maxPassed is how many such passwords are remembered.
	maxPassed = 1000

	// maxChecks is how many passwords are checked at once: a check that is slow on purpose must not take all processors.
	maxChecks = 2
)

// passed remembers which passwords were right. A good check takes a tenth of a second, and a page with its script,
// style and stream brings the password four times.
type passed struct {
	check  func(name, password string) bool
	secret []byte        // only digests with it are kept
	checks chan struct{} // one for each check

	mu    sync.Mutex
	until map[[sha256.Size]byte]time.Time
}

func newPassed(check func(name, password string) bool) *passed {
	p := &passed{check: check, secret: make([]byte, 32), checks: make(chan struct{}, maxChecks), until: make(map[[sha256.Size]byte]time.Time)}
	_, _ = rand.Read(p.secret) // never fails
	return p
}

// ok reports whether a password is the user's. It is not if ctx ends before it could be checked.
func (p *passed) ok(ctx context.Context, name, password string) bool {
	d := p.digest(name, password)
	if p.known(d) {
		return true
	}
	select {
	case p.checks <- struct{}{}:
		defer func() { <-p.checks }()
	case <-ctx.Done():
		return false
	}
	if p.known(d) { // while this one waited
		return true
	}
	if !p.check(name, password) {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.until) >= maxPassed {
		clear(p.until)
	}
	p.until[d] = time.Now().Add(passedTime)
	return true
}

func (p *passed) known(d [sha256.Size]byte) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return time.Now().Before(p.until[d])
}

func (p *passed) digest(name, password string) (d [sha256.Size]byte) {
	h := hmac.New(sha256.New, p.secret)
	h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(name))))
	h.Write([]byte(name + password))
	h.Sum(d[:0])
	return d
}
