package mongolock

import (
	"sync"
	"time"

	"github.com/rowlock/rowlock/driver"
)

// recent remembers keys, or IDs, for a while. Nothing depends on what it forgets. The zero value is ready; it is for
// concurrent use.
type recent[K comparable] struct {
	mu sync.Mutex
	of map[K]time.Time // until when, by this machine's clock
}

const maxRecent = 10_000

func (r *recent[K]) add(k K, d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	if len(r.of) >= maxRecent {
		for other, until := range r.of {
			if until.Before(now) {
				delete(r.of, other)
			}
		}
		if len(r.of) >= maxRecent {
			return
		}
	}
	if r.of == nil {
		r.of = make(map[K]time.Time)
	}
	r.of[k] = now.Add(d)
}

// has reports whether k is remembered.
func (r *recent[K]) has(k K) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	until, has := r.of[k]
	return has && time.Now().Before(until)
}

// crowdTime is how long a key is remembered for which somebody stood. Its statements are sent in the form that knows of
// lines; that of another key is sent again in that form when the answer to it says that there is a line.
const crowdTime = 10 * time.Second

// crowded says that somebody stands for key, or stood a moment ago.
func (s *Store) crowded(key string) { s.crowd.add(key, crowdTime) }

// short reports whether the short form of statements that know of lines will do: no reader or slot was met in the line.
func (s *Store) short(m driver.Mode, key string) bool {
	return m == driver.Exclusive && !s.shares.has(key)
}

// stoppedTime is how long a release is repeated, at most.
const stoppedTime = time.Minute

// unsureTime is longer than what was sent can be on its way.
const unsureTime = time.Hour
