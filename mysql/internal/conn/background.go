package conn

import "sync"

// Background counts what runs in the background. Other than to a sync.WaitGroup something may be added while it is waited
// for: a timer that fires in the middle of Close does that.
type Background struct {
	mu      sync.Mutex
	running int
	none    chan struct{} // closed when nothing runs any more; nil: nobody waits
}

// Run runs f.
func (b *Background) Run(f func()) {
	b.mu.Lock()
	b.running++
	b.mu.Unlock()
	go func() {
		defer b.ended()
		f()
	}()
}

func (b *Background) ended() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.running--; b.running == 0 && b.none != nil {
		close(b.none)
		b.none = nil
	}
}

// Wait waits until nothing runs. What is begun after that is not waited for.
func (b *Background) Wait() {
	b.mu.Lock()
	if b.running == 0 {
		b.mu.Unlock()
		return
	}
	if b.none == nil {
		b.none = make(chan struct{})
	}
	none := b.none
	b.mu.Unlock()
	<-none
}
