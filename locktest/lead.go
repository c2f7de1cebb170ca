// P24: Lead, Observe and Every.

package locktest

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/driver"
)

var leading = []testCase{
	{name: "P24_OneLeadsAtATime", engine: true, run: oneLeads},
	{name: "P24_KeyStaysUnderARunningFunction", engine: true, run: leadDeaf},
	{name: "P24_LossEndsTheTerm", engine: true, run: leadForced, needs: forcing},
	{name: "P24_KilledLeader", long: true, run: killedLeader, needs: processes},
	{name: "P24_FrozenLeader", long: true, run: frozenLeader, needs: freezing},
	{name: "P24_Observe", engine: true, run: observe},
	{name: "P24_ObserveForced", engine: true, run: observeForced, needs: forcing},
	{name: "P24_EveryRunsOncePerPeriod", engine: true, run: every},
	{name: "P24_EveryAfterLateAnswers", engine: true, run: everyLate},
}

// oneLeads has programs that lead for a random time and resign, some by returning and some by
// the end of their context.
func oneLeads(t *testing.T, e *env) {
	const programs, rounds = 3, 6
	key := e.key(t)
	var mu sync.Mutex
	var spans []span
	var wg sync.WaitGroup
	for i := range programs {
		c := e.client(t, rowlock.Options{TTL: e.ttl})
		wg.Go(func() {
			for n := range rounds {
				ctx, resign := context.WithCancel(soon(t))
				err := rowlock.Lead(ctx, c, key, func(ctx context.Context, term *rowlock.Lease) error {
					s := span{token: term.Token()}
					for range 10 {
						s.look(term)
						time.Sleep(time.Millisecond)
					}
					if (i+n)%2 == 0 {
						resign()
						<-ctx.Done()
						s.look(term) // still its own, until it returns
					}
					mu.Lock()
					spans = append(spans, s)
					mu.Unlock()
					return nil
				})
				if err != nil && !errors.Is(err, context.Canceled) {
					t.Errorf("lead: %v", err)
				}
				resign()
			}
		})
	}
	wg.Wait()
	if len(spans) < programs*rounds {
		t.Errorf("P24: %d terms, want at least %d", len(spans), programs*rounds)
	}
	checkSpans(t, spans)
}

// leadDeaf: the context of a leader ends, and it goes on for longer than the TTL. Nobody else
// leads before it has returned.
func leadDeaf(t *testing.T, e *env) {
	e.patiently(t, func(ttl time.Duration) error {
		a, b := e.client(t, rowlock.Options{TTL: ttl}), e.client(t, rowlock.Options{TTL: ttl})
		key := e.key(t)
		ctx, end := context.WithCancel(context.Background())
		var running atomic.Bool
		var early, lost error
		running.Store(true)
		next := make(chan error, 1)
		err := rowlock.Lead(ctx, a, key, func(ctx context.Context, term *rowlock.Lease) error {
			defer running.Store(false)
			go func() {
				next <- rowlock.Lead(soon(t), b, key, func(context.Context, *rowlock.Lease) error {
					if running.Load() {
						early = errors.New("P24: another program leads while the function of the last leader runs")
					}
					return nil
				})
			}()
			until(t, "the other program waits", func() bool { return b.Stats().Waiting == 1 })
			end()
			<-ctx.Done()
			time.Sleep(ttl * 3 / 2)
			lost = term.Err()
			return nil
		})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("P24: Lead whose context ended: %v, want its context's error", err)
		}
		if err := <-next; err != nil {
			t.Errorf("the other program: %v", err)
		}
		if lost != nil { // this machine stood still
			return lost
		}
		if early != nil {
			t.Error(early)
		}
		return nil
	})
}

// leadForced: a leader that an operator has ended waits for its function, and leads again in
// a later term.
func leadForced(t *testing.T, e *env) {
	s := e.Open(t)
	c := e.clientOn(t, s, rowlock.Options{TTL: e.ttl})
	key := e.key(t)
	var tokens []int64
	var running atomic.Int32
	err := rowlock.Lead(soon(t), c, key, func(ctx context.Context, term *rowlock.Lease) error {
		if running.Add(1) != 1 {
			t.Error("P24: the function runs twice at a time")
		}
		defer running.Add(-1)
		if tokens = append(tokens, term.Token()); len(tokens) == 3 {
			return nil
		}
		force(t, s, key)
		_ = renew1(t, term)
		closed(t, "the leader hears of its loss", ctx.Done())
		if cause := context.Cause(ctx); !errors.Is(cause, rowlock.ErrLost) {
			t.Errorf("P24: the leader's context ended with the cause %v, want ErrLost", cause)
		}
		time.Sleep(e.ttl / 2)
		return errors.New("of a term that was lost")
	})
	if err != nil {
		t.Errorf("lead: %v", err)
	}
	for i := 1; i < len(tokens); i++ {
		if tokens[i] <= tokens[i-1] {
			t.Errorf("P24: terms %v", tokens)
		}
	}
}

// killedLeader: the leader's process is killed, and another leads when its TTL is over.
func killedLeader(t *testing.T, e *env) {
	key := e.key(t)
	p := e.start(t, job{Role: "lead", Key: key, TTL: e.short})
	token, err := strconv.ParseInt(p.expect("leads"), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	p.kill()
	killed := time.Now()
	err = rowlock.Lead(soon(t), e.client(t, rowlock.Options{}), key, func(_ context.Context, term *rowlock.Lease) error {
		t.Logf("another program leads %v after the leader of a TTL of %v was killed", time.Since(killed), e.short)
		if term.Token() <= token {
			t.Errorf("P24: term %d after %d", term.Token(), token)
		}
		return nil
	})
	if err != nil {
		t.Errorf("lead: %v", err)
	}
}

// frozenLeader: the leader's process stands still, another leads, and the old one goes on. Its
// context ends at once, it trusts its lease at no look after the new one led, no guard may
// begin under it, and it waits for the key again.
func frozenLeader(t *testing.T, e *env) {
	key := e.key(t)
	p := e.start(t, job{Role: "lead", Key: key, TTL: e.short})
	token, err := strconv.ParseInt(p.expect("leads"), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	p.freeze()
	c := e.client(t, rowlock.Options{})
	err = rowlock.Lead(soon(t), c, key, func(ctx context.Context, term *rowlock.Lease) error {
		granted := time.Now().UnixNano()
		if term.Token() <= token {
			t.Errorf("P24: term %d after %d", term.Token(), token)
		}
		p.thaw()
		s, err := parseSpan(p.expect("ended"))
		if err != nil {
			t.Fatal(err)
		}
		if s.last > granted {
			Breach(t, "P2", "a frozen leader trusted its lease %v after another led", time.Duration(s.last-granted))
		}
		if guard := p.expect("guard"); !strings.Contains(guard, "lost") {
			t.Errorf("P4: a guard under the lease of a leader that was frozen: %q, want ErrLost", guard)
		}
		token = term.Token()
		return renew1(t, term)
	})
	if err != nil {
		t.Errorf("P5: the new leader beside the one that came back: %v", err)
	}
	again, err := strconv.ParseInt(p.expect("leads"), 10, 64)
	if err != nil || again <= token {
		t.Errorf("P24: term %d after %d, %v", again, token, err)
	}
}

// lead leads until the process is killed: it says "leads" with the token, then "ended" with
// the span of looks that found the lease held, then "guard" and why no guard could begin.
func (j job) lead(ctx context.Context, c *rowlock.Client, store driver.Store) error {
	return rowlock.Lead(ctx, c, j.Key, func(ctx context.Context, term *rowlock.Lease) error {
		fmt.Println("leads", term.Token())
		s := span{token: term.Token()}
		for s.look(term) {
			time.Sleep(time.Millisecond)
		}
		<-ctx.Done()
		fmt.Println("ended", s)
		_, err := rowlock.BeginGuard(term, store)
		switch {
		case errors.Is(err, rowlock.ErrLost):
			fmt.Println("guard lost")
		default:
			fmt.Println("guard", err)
		}
		return nil
	})
}

// watching collects what Observe yields.
type watching struct {
	t    *testing.T
	mu   sync.Mutex
	last rowlock.Leader
	seen int
}

func watch(t *testing.T, c *rowlock.Client, key string) *watching {
	w := &watching{t: t}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	t.Cleanup(func() { cancel(); <-done })
	go func() {
		defer close(done)
		for l, err := range c.Observe(ctx, key) {
			if err != nil { // a busy server
				t.Logf("observe: %v", err)
			}
			w.mu.Lock()
			if l.Token < w.last.Token {
				t.Errorf("P24: term %d was observed after %d", l.Token, w.last.Token)
			}
			w.last = l
			w.seen++
			w.mu.Unlock()
		}
	}()
	return w
}

// see waits until owner leads, or nobody, in a term for which ok.
func (w *watching) see(what, owner string, ok func(rowlock.Leader) bool) (l rowlock.Leader) {
	w.t.Helper()
	until(w.t, "it is observed that "+what, func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		l = w.last
		return w.seen > 0 && l.Held == (owner != "") && (owner == "" || l.Owner == owner) && ok(l)
	})
	return l
}

func anyTerm(rowlock.Leader) bool { return true }

// observe follows nobody, A, nobody, B, the end of B's lease, and A again.
func observe(t *testing.T, e *env) {
	a, b := e.client(t, rowlock.Options{Owner: "A"}), e.client(t, rowlock.Options{Owner: "B"})
	key := e.key(t)
	w := watch(t, e.client(t, rowlock.Options{}), key)
	w.see("nobody leads", "", anyTerm)
	lease := acquire(t, a, key)
	first := w.see("A leads", "A", anyTerm)
	if first.Token > lease.Token() || first.Token <= 0 || first.Key != key || first.Left <= 0 || first.Left > longTTL || first.Since.IsZero() {
		t.Errorf("P24: %+v was observed of a lease with token %d", first, lease.Token())
	}
	release1(t, lease)
	w.see("nobody leads after A", "", func(l rowlock.Leader) bool { return l.Token >= first.Token })
	lease = acquire(t, b, key, rowlock.NoRenew(), rowlock.TTL(max(e.short, 3*time.Second)))
	second := w.see("B leads", "B", func(l rowlock.Leader) bool { return l.Token > first.Token })
	w.see("B's lease is over", "", func(l rowlock.Leader) bool { return l.Token >= second.Token })
	if err := lease.Err(); !errors.Is(err, rowlock.ErrLost) {
		t.Errorf("P2: nobody leads by the database's clock, and the lease says %v", err)
	}
	lease = acquire(t, a, key, rowlock.MinHold(longTTL))
	third := w.see("A leads again", "A", func(l rowlock.Leader) bool { return l.Token > second.Token })
	release1(t, lease)
	w.see("A has ended, though MinHold keeps the key", "", func(l rowlock.Leader) bool { return l.Token >= third.Token })
}

// observeForced: terms rise across forced releases.
func observeForced(t *testing.T, e *env) {
	s := e.Open(t)
	a, b := e.clientOn(t, s, rowlock.Options{Owner: "A", TTL: e.ttl}), e.client(t, rowlock.Options{Owner: "B"})
	key := e.key(t)
	w := watch(t, e.client(t, rowlock.Options{}), key)
	acquire(t, a, key)
	first := w.see("A leads", "A", anyTerm)
	force(t, s, key)
	w.see("nobody leads after the forced release", "", func(l rowlock.Leader) bool { return l.Token >= first.Token })
	lease := acquire(t, b, key)
	second := w.see("B leads", "B", func(l rowlock.Leader) bool { return l.Token > first.Token })
	release1(t, lease)
	w.see("nobody leads after B", "", func(l rowlock.Leader) bool { return l.Token >= second.Token })
}

// every: programs run a job each period, by the server's clock. One of them is closed in its
// run, and one takes longer than the period.
func every(t *testing.T, e *env) {
	const period, runs = time.Second, 5
	key := e.key(t)
	type run struct {
		token int64
		since time.Time
	}
	var mu sync.Mutex
	var all []run
	var running atomic.Bool
	ctx, end := context.WithCancel(soon(t))
	defer end()
	var wg sync.WaitGroup
	for range 3 {
		c := e.client(t, rowlock.Options{})
		wg.Go(func() {
			err := rowlock.Every(ctx, c, key, period, func(ctx context.Context, lease *rowlock.Lease) error {
				if running.Swap(true) {
					t.Error("P24: two runs at a time")
				}
				defer running.Store(false)
				info, err := c.Inspect(soon(t), key)
				if err != nil {
					return err
				}
				mu.Lock()
				all = append(all, run{lease.Token(), info.Since})
				n := len(all)
				mu.Unlock()
				switch {
				case n == 2:
					go c.Close(soon(t))
					<-ctx.Done()
				case n == 3:
					time.Sleep(period * 3 / 2)
				case n >= runs:
					end()
				}
				return nil
			})
			if !errors.Is(err, context.Canceled) && !errors.Is(err, rowlock.ErrClosed) {
				t.Errorf("every: %v", err)
			}
		})
	}
	wg.Wait()
	for i := 1; i < len(all); i++ {
		if d := all[i].since.Sub(all[i-1].since); d < period-slack {
			t.Errorf("P24: a run began %v after the one before, in a period of %v", d, period)
		}
		if all[i].token <= all[i-1].token {
			t.Errorf("P3: token %d after %d", all[i].token, all[i-1].token)
		}
	}
	if len(all) < runs {
		t.Errorf("P24: %d runs, want at least %d", len(all), runs)
	}
}

// everyLate: the answers to the grants of one program come late, and what it sends does. No run
// begins within a period of the beginning of another, whoever runs.
func everyLate(t *testing.T, e *env) {
	const period, late, runs = time.Second, 700 * time.Millisecond, 4
	key := e.key(t)
	slow, f := e.faulty(t, rowlock.Options{})
	f.On(OpAcquire, func(ctx context.Context, _ *Call, send Send) ([]driver.Result, error) {
		time.Sleep(late / 4)
		results, err := send(ctx)
		if err == nil && results[0].Status == driver.Granted {
			time.Sleep(late)
		}
		return results, err
	})
	f.On(OpRelease, func(ctx context.Context, _ *Call, send Send) ([]driver.Result, error) {
		time.Sleep(late / 4)
		return send(ctx)
	})
	var mu sync.Mutex
	var began []time.Time
	ctx, end := context.WithCancel(soon(t))
	defer end()
	var wg sync.WaitGroup
	run := func(c *rowlock.Client) {
		wg.Go(func() {
			err := rowlock.Every(ctx, c, key, period, func(context.Context, *rowlock.Lease) error {
				mu.Lock()
				defer mu.Unlock()
				if began = append(began, time.Now()); len(began) >= runs {
					end()
				}
				return nil
			})
			if !errors.Is(err, context.Canceled) {
				t.Errorf("every: %v", err)
			}
		})
	}
	run(slow)
	until(t, "the slow program has the key", func() bool {
		info, err := slow.Inspect(soon(t), key)
		return err == nil && info.Held
	})
	run(e.client(t, rowlock.Options{}))
	wg.Wait()
	for i := 1; i < len(began); i++ {
		if d := began[i].Sub(began[i-1]); d < period {
			t.Errorf("P24: a run began %v after the one before, in a period of %v", d, period)
		}
	}
	if len(began) < runs {
		t.Errorf("P24: %d runs, want at least %d", len(began), runs)
	}
}
