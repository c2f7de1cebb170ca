package enginetest

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/memory"
)

// streamStore is a memory store that tells its clients of releases, as a change stream does.
type streamStore struct {
	*memory.Store
	delay time.Duration // of what the stream says, after the reply to the release

	mu      sync.Mutex
	streams map[*stream]bool
	opened  int
}

type stream struct {
	keys chan string
	fail chan error
}

func newStreamStore() *streamStore {
	return &streamStore{Store: memory.New(), streams: make(map[*stream]bool)}
}

func (s *streamStore) Release(ctx context.Context, holds []driver.Hold) ([]driver.Result, error) {
	results, err := s.Store.Release(ctx, holds)
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.streams {
		for _, h := range holds {
			c.keys <- h.Key
		}
	}
	return results, err
}

func (s *streamStore) Watch(ctx context.Context, ready func(), free func(string)) error {
	c := &stream{make(chan string, 100), make(chan error, 1)}
	s.mu.Lock()
	s.streams[c] = true
	s.opened++
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.streams, c)
	}()
	ready()
	for {
		select {
		case key := <-c.keys:
			time.Sleep(s.delay)
			free(key)
		case err := <-c.fail:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (s *streamStore) everOpened() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.opened
}

// breakAll ends every stream with err, and returns how many there were.
func (s *streamStore) breakAll(err error) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.streams {
		c.fail <- err
	}
	return len(s.streams)
}

// TestWaitersOpenNoStream: it is for those that observe, and open only while they do.
func TestWaitersOpenNoStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newStreamStore()
		a, b := newClient(t, p), newClient(t, p)
		l := acquire(t, a, "k")
		next := waits(t, b)
		time.Sleep(time.Minute)
		if n := p.everOpened(); n != 0 {
			t.Errorf("a caller that waits has opened %d streams", n)
		}
		ctx, cancel := context.WithCancel(t.Context())
		newFollow(ctx, b, "k")
		newFollow(ctx, b, "other")
		time.Sleep(time.Minute)
		if n := p.everOpened(); n != 1 {
			t.Errorf("%d streams for two loops of Observe", n)
		}
		cancel()
		time.Sleep(time.Minute)
		if n := p.breakAll(nil); n != 0 {
			t.Errorf("%d streams are open though nobody observes", n)
		}
		release(t, l)
		release(t, <-next)
	})
}
