package conn

import (
	"cmp"
	"context"
	sqldriver "database/sql/driver"
	"sync"
	"time"
)

// A connect can hang. A primary that froze still accepts connections, and says nothing on them; when the address leads to
// the next primary, that is of no use to those who wait for the first. So beside a connect that is late another is begun,
// which goes where the address leads by then, and the first that is ready counts. The one that is late is waited for all
// the same: a slow server is as slow the second time.
//
// While none is answered there are two in SilentFor for all connects of a Store: a server that comes back to hundreds which
// nobody waits for any more blocks the host (max_connect_errors). When one is answered, all that are late begin another.
type lateness struct {
	least time.Duration // how old a connect is at least when it is late; 0: SilentFor

	mu       sync.Mutex
	next     time.Time     // when another may be begun though none was answered
	answered time.Time     // when the last was begun of those that became ready
	took     time.Duration // how long the last of those took
}

// latePoll is how often a connect that is late looks whether another may be begun.
const latePoll = SilentFor / 10

// after is how old a connect is when it is late.
func (l *lateness) after() time.Duration {
	return min(max(cmp.Or(l.least, SilentFor), 2*l.took), AskWait)
}

// another reports whether another may be begun beside those of which the first and the newest were begun then.
func (l *lateness) another(first, newest time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	now, after := time.Now(), l.after()
	switch {
	case now.Sub(first) < after:
		return false
	case l.answered.After(newest):
		return now.Sub(newest) >= after/4
	case now.Before(l.next):
		return false
	}
	l.next = now.Add(after / 2)
	return true
}

// ready notes a connect that became ready.
func (l *lateness) ready(begun time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if begun.After(l.answered) {
		l.answered = begun
	}
	l.took = time.Since(begun)
}

// connected is what came of one.
type connected struct {
	conn  sqldriver.Conn
	err   error
	begun time.Time
}

// connect is the first that is ready of connects that are begun one beside the other; if none is, the error of the
// first that failed.
func (l *lateness) connect(ctx context.Context, dial func(context.Context) (sqldriver.Conn, error)) (sqldriver.Conn, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	results := make(chan connected)
	begin := func() time.Time {
		begun := time.Now()
		go func() {
			c, err := dial(ctx)
			select {
			case results <- connected{c, err, begun}:
			case <-ctx.Done(): // another was ready, or nobody waits any more
				if err == nil {
					_ = c.Close()
				}
			}
		}()
		return begun
	}
	first, pending := begin(), 1
	newest := first
	look := time.NewTicker(latePoll)
	defer look.Stop()
	var failed error
	for {
		select {
		case r := <-results:
			if r.err == nil {
				l.ready(r.begun)
				return r.conn, nil
			}
			if failed == nil {
				failed = r.err
			}
			if pending--; pending == 0 {
				return nil, failed
			}
		case <-look.C:
			if l.another(first, newest) {
				newest = begin()
				pending++
			}
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}
