// P7: a reply that is lost makes neither two holders nor a hold that nobody knows
// of. And a holder process that dies leaves its hold to the TTL, not longer.

package locktest

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/driver"
)

var lostReply = []testCase{
	{name: "P7_TryAcquireReplyLost", engine: true, run: tryReplyLost},
	{name: "P7_AcquireReplyLost", engine: true, run: acquireReplyLost},
	{name: "P7_RenewReplyLost", engine: true, run: renewReplyLost},
	{name: "P7_ReleaseReplyLost", engine: true, run: func(t *testing.T, e *env) { releaseNotAnswered(t, e, LoseReply) }},
	{name: "P7_ReleaseNotSent", engine: true, run: func(t *testing.T, e *env) { releaseNotAnswered(t, e, Fail) }},
	{name: "P7_ReleaseHangs", engine: true, run: func(t *testing.T, e *env) { releaseNotAnswered(t, e, HangAfter) }},
	{name: "P7_AcquireArrivesLate", engine: true, run: lateArrival},
	{name: "P7_EverythingFlaky", engine: true, run: everythingFlaky},
	{name: "P7_KilledHolder", long: true, run: killedHolder, needs: processes},
}

func tryReplyLost(t *testing.T, e *env) {
	a, f := e.faulty(t, rowlock.Options{})
	b := e.client(t, rowlock.Options{})
	for range 3 {
		key := e.key(t)
		f.On(OpAcquire, loseGrant())
		until(t, "the try whose reply is lost", func() bool {
			_, err := a.TryAcquire(soon(t), key)
			if err == nil || errors.Is(err, ErrFault) && errors.Is(err, rowlock.ErrHeld) {
				t.Fatalf("P7: a try whose reply was lost: %v, want the cause, and not ErrHeld", err)
			}
			return errors.Is(err, ErrFault)
		})
		freeSoon(t, b, key)
		freeSoon(t, a, key)
	}
}

// acquireReplyLost: the wait goes on after a lost reply, and ends with one holder.
func acquireReplyLost(t *testing.T, e *env) {
	a, f := e.faulty(t, rowlock.Options{})
	b := e.client(t, rowlock.Options{})
	for range 3 {
		key := e.key(t)
		f.On(OpAcquire, loseGrant())
		lease := acquire(t, a, key)
		refused(t, b, key)
		// The undo of the lost attempt must not end the hold that came after it.
		until(t, "the lost attempt is undone", func() bool { return a.Stats().Unresolved == 0 })
		if err := renew1(t, lease); err != nil {
			t.Fatalf("P7: the holder lost its lease to the undo of an earlier attempt: %v", err)
		}
		refused(t, b, key)
		release1(t, lease)
		freeSoon(t, b, key)
	}
}

// renewReplyLost loses the reply of every other renewal: the lease lives on.
func renewReplyLost(t *testing.T, e *env) {
	a, f := e.faulty(t, rowlock.Options{})
	var mu sync.Mutex
	n := 0
	f.On(OpRenew, func(ctx context.Context, c *Call, send Send) ([]driver.Result, error) {
		mu.Lock()
		n++
		lose := n%2 == 1
		mu.Unlock()
		if lose {
			return LoseReply(ctx, c, send)
		}
		return send(ctx)
	})
	e.patiently(t, func(ttl time.Duration) error {
		lease := acquire(t, a, e.key(t), rowlock.TTL(ttl))
		defer lease.Release(context.Background())
		return survives(lease, 3*ttl)
	})
}

// releaseNotAnswered: the holder has stopped, so the release is nil; it is repeated
// until the key is free, and the repeats do the next holder no harm.
func releaseNotAnswered(t *testing.T, e *env, fault Hook) {
	a, f := e.faulty(t, rowlock.Options{ReleaseWait: 300 * time.Millisecond})
	b := e.client(t, rowlock.Options{})
	key := e.key(t)
	lease := acquire(t, a, key)
	f.On(OpRelease, Once(fault))
	began := time.Now()
	if err := lease.Release(soon(t)); err != nil {
		t.Errorf("P7: release without an answer: %v, want nil", err)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("release took %v with a ReleaseWait of 300ms", took)
	}
	next := acquire(t, b, key)
	until(t, "the release is settled", func() bool { return a.Stats().Unresolved == 0 })
	if err := renew1(t, next); err != nil {
		t.Errorf("P5: the next holder lost its lease to a repeated release: %v", err)
	}
	if err := lease.Release(soon(t)); err != nil {
		t.Errorf("a second release: %v, want nil as the first time", err)
	}
	refused(t, a, key)
	release1(t, next)
}

// lateArrival delivers an acquire to the server after the client has given it up
// and sent its undo. What it still grants lasts one TTL at most.
func lateArrival(t *testing.T, e *env) {
	a, f := e.faulty(t, rowlock.Options{})
	b := e.client(t, rowlock.Options{})
	key, ttl := e.key(t), 2*e.ttl
	arrived := make(chan struct{})
	f.On(OpAcquire, Once(func(_ context.Context, _ *Call, send Send) ([]driver.Result, error) {
		go func() {
			defer close(arrived)
			time.Sleep(100 * time.Millisecond)
			_, _ = send(context.Background())
		}()
		return nil, ErrFault
	}))
	if _, err := a.TryAcquire(soon(t), key, rowlock.TTL(ttl)); !errors.Is(err, ErrFault) {
		t.Fatalf("a try whose request is late: %v", err)
	}
	closed(t, "the late request arrives", arrived)
	began := time.Now()
	freeSoon(t, b, key)
	t.Logf("free %v after the late grant, TTL %v", time.Since(began), ttl)
	until(t, "the late attempt is undone", func() bool { return a.Stats().Unresolved == 0 })
}

// everythingFlaky fails, loses or delays a third of all calls of several programs.
func everythingFlaky(t *testing.T, e *env) {
	const programs, nkeys = 3, 2
	flaky := func(ctx context.Context, c *Call, send Send) ([]driver.Result, error) {
		switch rand.IntN(12) {
		case 0:
			return Fail(ctx, c, send)
		case 1, 2:
			return LoseReply(ctx, c, send)
		case 3:
			time.Sleep(rand.N(e.ttl / 8))
			return send(ctx)
		}
		return send(ctx)
	}
	var names [nkeys]string
	for i := range names {
		names[i] = e.key(t)
	}
	var mu sync.Mutex
	spans := make(map[string][]span)
	var wg sync.WaitGroup
	end := time.Now().Add(3 * e.ttl)
	for range programs {
		c, f := e.faulty(t, rowlock.Options{TTL: e.ttl, ReleaseWait: e.ttl / 4})
		for _, op := range []Op{OpAcquire, OpRenew, OpRelease, OpInspect} {
			f.On(op, flaky)
		}
		for range 2 {
			wg.Go(func() {
				for time.Now().Before(end) {
					key := names[rand.IntN(nkeys)]
					lease, err := c.Acquire(soon(t), key)
					if err != nil {
						t.Errorf("acquire: %v", err)
						return
					}
					s := span{token: lease.Token()}
					s.watch(lease, rand.N(e.ttl/8))
					if err := lease.Release(context.Background()); err != nil && !errors.Is(err, rowlock.ErrLost) {
						t.Errorf("release: %v", err)
					}
					mu.Lock()
					spans[key] = append(spans[key], s)
					mu.Unlock()
				}
			})
		}
	}
	wg.Wait()
	c := e.client(t, rowlock.Options{})
	for _, key := range names {
		checkSpans(t, spans[key])
		freeSoon(t, c, key)
	}
}

// killedHolder kills the holder's process. A child that gets no time loses its lease
// rightly, so one whose key is granted to another is asked whether it still trusts it.
func killedHolder(t *testing.T, e *env) {
	var key string
	var p *process
	var token int64
	c := e.client(t, rowlock.Options{})
	e.patiently(t, func(ttl time.Duration) error {
		key = e.key(t)
		p = e.start(t, job{Role: "hold", Key: key, TTL: ttl})
		token = p.held()
		other, err := c.TryAcquire(soon(t), key)
		if errors.Is(err, rowlock.ErrHeld) {
			return nil
		} else if err != nil {
			t.Fatalf("try a held key: %v, want ErrHeld", err)
		}
		granted := time.Now().UnixNano()
		p.tell("release")
		said := p.next() // lost REASON SPAN or released SPAN
		s, err := parseSpan(said[strings.LastIndexFunc(said, unicode.IsLetter)+1:])
		if err != nil {
			t.Fatalf("a child said %q: %v", said, err)
		}
		if s.last > granted {
			Breach(t, "P1", "%q was granted (token %d) while another holds it, which says %q", key, other.Token(), said)
			t.FailNow()
		}
		release1(t, other)
		return errors.New("the child lost its lease")
	})
	p.kill()
	killed := time.Now()
	lease := acquire(t, c, key)
	t.Logf("granted %v after the holder was killed", time.Since(killed))
	if lease.Token() <= token {
		Breach(t, "P3", "token %d was granted after %d", lease.Token(), token)
	}
	release1(t, lease)
	// One that ends well frees its key at once.
	p = e.start(t, job{Role: "hold", Key: key, TTL: longTTL})
	p.held()
	p.tell("release")
	p.expect("released")
	freeSoon(t, c, key)
	p.expect("done")
}
