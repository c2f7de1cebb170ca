package undo

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/call"
	"github.com/rowlock/rowlock/internal/logs"
)

const (
	ttl      = 30 * time.Second
	lockWait = 50 * time.Millisecond
)

// server answers releases, and notes when they were sent.
type server struct {
	driver.Store
	answer func(driver.Hold) driver.Result
	start  time.Time

	mu    sync.Mutex
	sent  map[string][]time.Duration // by key
	calls [][]string                 // the keys of each
}

func (s *server) Acquire(context.Context, []driver.Request) ([]driver.Result, error) {
	panic("not expected")
}

func (s *server) Renew(context.Context, []driver.Hold) ([]driver.Result, error) {
	panic("not expected")
}

func (s *server) Release(_ context.Context, holds []driver.Hold) (results []driver.Result, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var keys []string
	for _, h := range holds {
		s.sent[h.Key] = append(s.sent[h.Key], time.Since(s.start))
		keys = append(keys, h.Key)
		results = append(results, s.answer(h))
	}
	s.calls = append(s.calls, keys)
	return results, nil
}

func (s *server) times(key string) []time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.sent[key])
}

// newUnresolved makes an Unresolved whose server gives answer.
func newUnresolved(t *testing.T, answer func(driver.Hold) driver.Result) (*Unresolved, *server) {
	s := &server{answer: answer, start: time.Now(), sent: make(map[string][]time.Duration)}
	store := call.New(s, driver.Limits{Batch: 100, LockWait: lockWait}, func() time.Duration { return time.Since(s.start) })
	t.Cleanup(store.End)
	log := slog.New(slog.DiscardHandler)
	var report logs.Report
	report.Init(log, store.Now)
	return New(store, &report, log), s
}

func always(r driver.Result) func(driver.Hold) driver.Result {
	return func(driver.Hold) driver.Result { return r }
}

func hold(key string) driver.Hold { return driver.Hold{Key: key, TTL: ttl} }

var (
	errLost    = errors.New("connection reset")
	errRefused = &driver.Error{Lasting: true, NotApplied: true, Err: errors.New("DELETE command denied")}
)

// TestFinal: when a hold cannot exist any more. The attempt was sent at 0.
func TestFinal(t *testing.T) {
	const arrived = ttl + lockWait
	for _, c := range []struct {
		name       string
		task       Task
		result     driver.Result
		start, now time.Duration
		want       bool
	}{
		{"found nothing: the attempt may still come", Task{}, driver.Result{Status: driver.Removed}, 1, 2, false},
		{"ended it, and an ID may be sent twice", Task{}, driver.Result{Status: driver.Released}, 1, 2, false},
		{"the store says that it is final", Task{}, driver.Result{Status: driver.Removed, Final: true}, 1, 2, true},
		{"the store says that it is final, and does not know of other attempts", Task{MayCome: true}, driver.Result{Status: driver.Released, Final: true}, 1, 2, false},
		{"the grant was seen", Task{Acknowledged: true}, driver.Result{Status: driver.Removed}, 1, 2, true},
		{"the grant was seen, no answer", Task{Acknowledged: true}, driver.Result{}, 1, 2, false},
		{"sent just before the attempt has arrived", Task{}, driver.Result{Status: driver.Removed}, arrived, arrived + 1, false},
		{"sent after the attempt has arrived", Task{}, driver.Result{Status: driver.Removed}, arrived + 1, arrived + 2, true},
		{"no answer, the hold may live", Task{}, driver.Result{}, 1, arrived + ttl, false},
		{"no answer, the hold has expired", Task{}, driver.Result{}, 1, arrived + ttl + 1, true},
		{"no answer, MinHold is not over", Task{Hold: driver.Hold{Keep: time.Hour}}, driver.Result{}, 1, arrived + time.Hour, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			u, _ := newUnresolved(t, nil)
			c.task.Hold.TTL = ttl
			if got := u.final(&c.task, c.result, c.start, c.now); got != c.want {
				t.Errorf("final is %v, want %v", got, c.want)
			}
		})
	}
}

// TestRepeats: an undo that finds nothing is repeated less and less often, until one was sent
// after the attempt must have arrived.
func TestRepeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u, s := newUnresolved(t, always(driver.Result{Status: driver.Removed}))
		u.Add(Task{Hold: hold("k")})
		if !u.Unanswered("k") || u.Unanswered("other") || u.Len() != 1 {
			t.Error("the undo was not taken on")
		}
		synctest.Wait()
		if u.Unanswered("k") {
			t.Error("the first undo was answered")
		}
		if left, err := u.Wait(t.Context()); left != nil || err != nil {
			t.Errorf("left %q, %v", left, err)
		}
		at := s.times("k")
		for i := 2; i < len(at)-1; i++ {
			if at[i]-at[i-1] < at[i-1]-at[i-2] || at[i]-at[i-1] > lastPause {
				t.Errorf("undos at %v: want growing pauses up to %v", at, lastPause)
				break
			}
		}
		if last := at[len(at)-1]; at[0] != 0 || last != ttl+lockWait+time.Millisecond {
			t.Errorf("undos at %v: want the last right after %v", at, ttl+lockWait)
		}
	})
}

// TestBatches: undos share statements, no key twice in one; one is not sent before its time.
func TestBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u, s := newUnresolved(t, always(driver.Result{Status: driver.Released, Final: true}))
		u.Add(Task{Hold: hold("later"), NotBefore: time.Minute})
		synctest.Wait()
		for _, key := range []string{"a", "b", "a"} {
			u.Add(Task{Hold: hold(key)})
		}
		if left, _ := u.Wait(t.Context()); left != nil {
			t.Errorf("left %q", left)
		}
		if len(u.byKey) != 0 {
			t.Errorf("kept %v", u.byKey)
		}
		for _, keys := range s.calls {
			slices.Sort(keys)
			if len(slices.Compact(slices.Clone(keys))) != len(keys) {
				t.Errorf("one statement for %q", keys)
			}
		}
		if at := s.times("later"); len(s.times("a")) != 2 || len(s.times("b")) != 1 || len(at) != 1 || at[0] != time.Minute {
			t.Errorf("sent %v", s.sent)
		}
	})
}

// TestRefused: a hold that the database refuses to release is tried less and less often, and Wait
// names it and does not wait.
func TestRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u, s := newUnresolved(t, always(driver.Result{Err: errRefused}))
		if u.AddFailed(Task{Hold: hold("a"), Acknowledged: true}, errLost) || !u.AddFailed(Task{Hold: hold("b"), Acknowledged: true}, errRefused) {
			t.Error("a refusal lasts and changes nothing, and no other error is one")
		}
		time.Sleep(time.Second)
		start := time.Now()
		left, err := u.Wait(t.Context())
		slices.Sort(left)
		if !slices.Equal(left, []string{"a", "b"}) || !errors.Is(err, errRefused) || time.Since(start) != 0 {
			t.Errorf("after %v: left %q, %v", time.Since(start), left, err)
		}
		ms := time.Millisecond
		if a, b := s.times("a"), s.times("b"); !slices.Equal(a, []time.Duration{0, 20 * ms, 60 * ms, 140 * ms, 300 * ms, 620 * ms}) || !slices.Equal(b, a[1:]) {
			t.Errorf("sent %v and %v, want growing pauses", a, b)
		}
	})
}

// TestWaitEnds: with its context. Nothing is taken on after it.
func TestWaitEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u, _ := newUnresolved(t, always(driver.Result{Err: errLost}))
		u.Add(Task{Hold: hold("k")})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if left, err := u.Wait(ctx); !slices.Equal(left, []string{"k"}) || !errors.Is(err, errLost) {
			t.Errorf("left %q, %v, want the error of the last try", left, err)
		}
		u.Add(Task{Hold: hold("late")})
		if u.Len() != 1 {
			t.Errorf("%d holds, want none taken on after Wait", u.Len())
		}
	})
}

// TestMayCome: an attempt that may still come, where the database had nothing of it, or where nothing is to be asked yet, is neither counted
// nor waited for; it is asked for again until it would have arrived.
func TestMayCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u, s := newUnresolved(t, always(driver.Result{Status: driver.Removed, Final: true}))
		u.Add(Task{Hold: hold("k"), MayCome: true})
		u.Add(Task{Hold: hold("later"), MayCome: true, NotBefore: time.Hour})
		synctest.Wait()
		if n := u.Len(); n != 0 {
			t.Errorf("%d are counted", n)
		}
		time.Sleep(2 * time.Hour)
		if at := s.times("k"); len(at) < 3 || at[len(at)-1] < ttl {
			t.Errorf("asked at %v, want until %v", at, ttl)
		}
		if at := s.times("later"); len(at) != 1 || at[0] != time.Hour {
			t.Errorf("asked at %v, want once, after an hour", at)
		}
		u.Add(Task{Hold: hold("last"), MayCome: true, Sent: 2 * time.Hour, NotBefore: 3 * time.Hour})
		if left, err := u.Wait(t.Context()); left != nil || err != nil {
			t.Errorf("left %q, %v", left, err)
		}
	})
}

// TestSilent: what a dead connection swallowed is repeated at once.
func TestSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		u, s := newUnresolved(t, func(driver.Hold) driver.Result {
			if n++; n == 1 {
				return driver.Result{Err: &driver.Error{Silent: true, Err: errLost}}
			}
			return driver.Result{Status: driver.Released, Final: true}
		})
		u.Add(Task{Hold: hold("k")})
		u.Wait(t.Context())
		if at := s.times("k"); !slices.Equal(at, []time.Duration{0, 0}) {
			t.Errorf("undos at %v", at)
		}
	})
}

// BenchmarkLeft asks about one key of many that are to be undone, as each attempt does.
func BenchmarkLeft(b *testing.B) {
	s := &server{start: time.Now()}
	store := call.New(s, driver.Limits{Batch: 100, LockWait: lockWait}, func() time.Duration { return time.Since(s.start) })
	defer store.End()
	u := New(store, new(logs.Report), slog.New(slog.DiscardHandler))
	for i := range 10_000 {
		u.Add(Task{Hold: hold(strconv.Itoa(i)), NotBefore: time.Hour})
	}
	for b.Loop() {
		u.Left("5000", func(driver.Mode) bool { return true })
	}
}
