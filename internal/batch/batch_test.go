package batch

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/call"
)

const commit = 10 * time.Millisecond

// server answers each batch after commit, or after the time that takes says.
type server struct {
	t     *testing.T
	b     *Batcher[string]
	start time.Time
	takes func(keys []string) time.Duration

	mu       sync.Mutex
	sent     []string // each batch: when it was sent, in ms, and its keys
	patience []time.Duration
	away     int
}

// newServer makes a Batcher and a server that it sends to.
func newServer(t *testing.T, c Config[string]) *server {
	s := &server{t: t, start: time.Now(), takes: func([]string) time.Duration { return commit }}
	c.Store = call.New(struct{ driver.Store }{}, driver.Limits{}, func() time.Duration { return time.Since(s.start) })
	c.Entry = func(key *string) (string, string) { return *key, "" }
	c.Send = s.send
	s.b = New(c)
	t.Cleanup(func() { <-c.Store.Work.Close() })
	return s
}

func (s *server) send(keys []string, patience time.Duration) call.Answers {
	s.mu.Lock()
	s.sent = append(s.sent, fmt.Sprint(time.Since(s.start).Milliseconds(), " ", strings.Join(keys, "")))
	s.patience = append(s.patience, patience)
	s.away++
	s.mu.Unlock()
	a := call.Answers{Sent: s.b.c.Store.Now(), Results: make([]driver.Result, len(keys))}
	time.Sleep(s.takes(keys))
	s.mu.Lock()
	s.away--
	s.mu.Unlock()
	a.Got = s.b.c.Store.Now()
	return a
}

// caller submits calls and keeps the answers.
type caller struct {
	patience time.Duration
	answered chan driver.Result
}

func (c *caller) Patience(time.Duration) time.Duration { return c.patience }

func (c *caller) Answered(r driver.Result, sent, got time.Duration) { c.answered <- r }

// submit submits one call for each letter of keys.
func (s *server) submit(keys string, with ...func(*Call[string])) *Call[string] {
	var calls []*Call[string]
	for _, key := range keys {
		q := &Call[string]{Q: string(key), Owner: &caller{time.Second, make(chan driver.Result, 1)}}
		for _, f := range with {
			f(q)
		}
		calls = append(calls, q)
	}
	s.b.Submit(calls...)
	synctest.Wait()
	return calls[0]
}

func class(d time.Duration) func(*Call[string])    { return func(q *Call[string]) { q.Class = d } }
func deadline(d time.Duration) func(*Call[string]) { return func(q *Call[string]) { q.Deadline = d } }
func now(q *Call[string])                          { q.Now = true }

// want compares what was sent when all was answered. What leaves at the same time has no order.
func (s *server) want(sent ...string) {
	s.t.Helper()
	<-s.b.c.Store.Work.Close()
	slices.Sort(s.sent)
	slices.Sort(sent)
	if !slices.Equal(s.sent, sent) {
		s.t.Errorf("sent %q, want %q", s.sent, sent)
	}
}

// TestBatches: what goes together, and when.
func TestBatches(t *testing.T) {
	for _, c := range []struct {
		name   string
		config Config[string]
		calls  func(s *server)
		want   []string
	}{
		{"a lone call leaves at once", Config[string]{Size: 9, AtOnce: 1, Most: 1}, func(s *server) {
			s.submit("a")
		}, []string{"0 a"}},
		{"calls gather while a batch is on its way", Config[string]{Size: 9, AtOnce: 1, Most: 1}, func(s *server) {
			s.submit("a")
			s.submit("b")
			s.submit("c")
		}, []string{"0 a", "10 bc"}},
		{"at most Size", Config[string]{Size: 2, AtOnce: 1, Most: 1}, func(s *server) {
			s.submit("abcde")
		}, []string{"0 ab", "10 cd", "20 e"}},
		{"no key twice", Config[string]{Size: 9, AtOnce: 1, Most: 1}, func(s *server) {
			s.submit("abaa")
		}, []string{"0 ab", "10 a", "20 a"}},
		{"one class", Config[string]{Size: 9, AtOnce: 1, Most: 1}, func(s *server) {
			s.submit("a", class(1))
			s.submit("bc", class(2))
			s.submit("de", class(1))
			s.submit("f", class(2))
		}, []string{"0 a", "10 bcf", "20 de"}},
		{"the nearest deadline first", Config[string]{Size: 2, AtOnce: 1, Most: 1}, func(s *server) {
			s.submit("a")
			s.submit("bc", deadline(time.Hour))
			s.submit("d", deadline(time.Minute))
		}, []string{"0 a", "10 db", "20 c"}},
		{"AtOnce", Config[string]{Size: 9, AtOnce: 2, Most: 2}, func(s *server) {
			s.submit("a")
			s.submit("b")
			s.submit("c")
		}, []string{"0 a", "0 b", "10 c"}},
		{"one more when the oldest is slow, up to Most", Config[string]{Size: 1, AtOnce: 1, Most: 2, Slow: 3 * time.Millisecond}, func(s *server) {
			s.submit("abc")
		}, []string{"0 a", "3 b", "10 c"}},
		{"a dead one does not count", Config[string]{Size: 1, AtOnce: 1, Most: 1, Dead: 4 * time.Millisecond}, func(s *server) {
			s.submit("abc")
		}, []string{"0 a", "4 b", "8 c"}},
		{"alone", Config[string]{Size: 9, Alone: true}, func(s *server) {
			s.submit("abc")
		}, []string{"0 a", "0 b", "0 c"}},
		{"now", Config[string]{Size: 9, AtOnce: 1, Most: 1}, func(s *server) {
			s.submit("a")
			s.submit("b", now)
		}, []string{"0 a", "0 b"}},
		{"now, though the deadline of another is nearer", Config[string]{Size: 1, AtOnce: 1, Most: 1}, func(s *server) {
			s.submit("ab", deadline(time.Minute))
			s.submit("c", now, deadline(time.Hour))
		}, []string{"0 a", "0 c", "10 b"}},
		{"urgent", Config[string]{Size: 9, AtOnce: 1, Most: 1, Urgent: time.Second}, func(s *server) {
			s.submit("a", deadline(time.Hour))
			s.submit("b", deadline(time.Second/2))
			s.submit("c", deadline(time.Hour))
		}, []string{"0 a", "0 b", "10 c"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer(t, c.config)
				c.calls(s)
				s.want(c.want...)
			})
		})
	}
}

// TestUrgentBatchesDoNotStay: a batch that left beyond Most, because of an urgent call,
// takes no ordinary calls when it ends: those wait for the others.
func TestUrgentBatchesDoNotStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, Config[string]{Size: 1, AtOnce: 1, Most: 1})
		s.takes = func(keys []string) time.Duration {
			if keys[0] == "u" || keys[0] == "v" {
				return commit / 2
			}
			return commit
		}
		s.submit("abcd")
		s.submit("u", now)
		s.submit("v", now)
		time.Sleep(commit * 3 / 4)
		s.mu.Lock()
		away := s.away
		s.mu.Unlock()
		if away != 1 {
			t.Errorf("%d batches are on their way after the urgent ones, want 1", away)
		}
		s.want("0 a", "0 u", "0 v", "10 b", "20 c", "30 d")
	})
}

// TestPatience: a batch has the least patience of its calls, without those whose answer is
// not worth waiting for any more.
func TestPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, Config[string]{Size: 9, AtOnce: 1, Most: 1})
		with := func(d time.Duration) func(*Call[string]) {
			return func(q *Call[string]) { q.Owner.(*caller).patience = d }
		}
		s.submit("a")
		late := s.submit("b", with(0))
		s.submit("c", with(time.Minute))
		s.submit("d", with(time.Hour))
		s.want("0 a", "10 cd")
		if s.patience[1] != time.Minute {
			t.Errorf("the batch was given %v, want the least of its calls", s.patience[1])
		}
		if r := <-late.Owner.(*caller).answered; r.Err != error(ErrTooLate) || !driver.IsNotApplied(r.Err) {
			t.Errorf("a call that was too late was answered %v, want ErrTooLate", r.Err)
		}
	})
}

// TestWithdraw: a call can be taken back until a batch has taken it.
func TestWithdraw(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, Config[string]{Size: 9, AtOnce: 1, Most: 1})
		sent := s.submit("a")
		waits := s.submit("b")
		if s.b.Withdraw(sent) {
			t.Error("a call on its way was taken back")
		}
		if !s.b.Withdraw(waits) || s.b.Withdraw(waits) {
			t.Error("a call that waits can be taken back, once")
		}
		s.want("0 a")
	})
}

// TestSubmitHere: the batch is sent by the caller's goroutine, and the next one by another.
func TestSubmitHere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, Config[string]{Size: 9, AtOnce: 1, Most: 1})
		go func() {
			time.Sleep(commit / 2)
			s.submit("b")
		}()
		s.b.SubmitHere(&Call[string]{Q: "a", Owner: &caller{time.Second, make(chan driver.Result, 1)}})
		if took := time.Since(s.start); took != commit {
			t.Errorf("returned after %v, want %v, when its own batch is answered", took, commit)
		}
		s.want("0 a", "10 b")
	})
}

// TestDelay: callers that were answered together go together again, after a sixteenth of
// a batch's time at most; no more callers than there can be batches wait for nobody.
func TestDelay(t *testing.T) {
	const batches = 4
	for _, c := range []struct {
		name    string
		callers int
		average time.Duration
		idle    time.Duration // since they came
		most    time.Duration // how long the first waits at most; 0: not at all
	}{
		{"more callers than batches", 5, 8 * time.Millisecond, 0, time.Millisecond / 2},
		{"a slow batch", 5, time.Second, 0, delayMost},
		{"a fast batch", 5, 100 * time.Microsecond, 0, 0},
		{"as many callers as batches", 4, 8 * time.Millisecond, 0, 0},
		{"callers that have gone", 5, 8 * time.Millisecond, 2 * period, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := delay{average: c.average}
			at := time.Hour
			for i := range c.callers {
				d.come(at, i+1)
			}
			d.leave(c.callers)
			at += c.idle
			d.come(at, 1)
			full, most := d.wait(batches, 1)
			if (full != nil) != (c.most > 0) || full != nil && most != c.most {
				t.Fatalf("waits %v for the others (%v), want %v", most, full != nil, c.most)
			}
			if full == nil {
				return
			}
			for i := 1; i < c.callers; i++ {
				select {
				case <-full:
					t.Fatalf("left with %d of %d", i, c.callers)
				default:
				}
				d.come(at, i+1)
			}
			select {
			case <-full:
			default:
				t.Error("still waits when all have come")
			}
		})
	}
}

// TestDelayOfAGroup: calls that came together wait for no others when all are here.
func TestDelayOfAGroup(t *testing.T) {
	const batches, calls = 4, 6
	d := delay{average: 8 * time.Millisecond}
	for i := range calls {
		d.come(time.Hour, i+1)
	}
	if full, _ := d.wait(batches, calls); full != nil {
		t.Error("waits though all of them are here")
	}
	if full, _ := d.wait(batches, calls-1); full == nil {
		t.Error("does not wait for the last")
	}
}
