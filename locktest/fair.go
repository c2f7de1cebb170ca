// P23, P29: programs that wait are served in the order in which they asked.

package locktest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/driver"
)

var fairCases = []testCase{
	{name: "P23_ProgramsInOrder", engine: true, run: func(t *testing.T, e *env) { programsInOrder(t, e, 1, rowlock.Fair()) }, needs: lines},
	{name: "P23_SlotsInOrder", engine: true, run: func(t *testing.T, e *env) { programsInOrder(t, e, 2, rowlock.Slots(2), rowlock.Fair()) }, needs: func(e *env) bool { return lines(e) && slots(e) }},
	{name: "P23_NewcomersDoNotPass", engine: true, run: func(t *testing.T, e *env) { newcomers(t, e, rowlock.Fair()) }, needs: lines},
	{name: "P23_GiveUp", engine: true, run: fairGiveUp, needs: lines},
	{name: "P29_TheDeadCostOneEntry", long: true, run: deadInLine, needs: func(e *env) bool { return lines(e) && processes(e) }},
	{name: "P23_Info", engine: true, run: waitingInfo, needs: lines},
}

// steadily runs a round until it is in order. Where it is not, and neither the machine nor the server has stood still
// for long, that is a fault; else it says nothing, and is run again.
func steadily(t *testing.T, s driver.Store, round func() (wrong string)) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	wrong := ""
	for end := time.Now().Add(patience(t)); time.Now().Before(end); {
		stop, stood := make(chan struct{}), make(chan time.Duration)
		go func() {
			most, last := time.Duration(0), time.Now()
			for {
				select {
				case <-stop:
					stood <- most
					return
				case <-time.After(10 * time.Millisecond):
				}
				_, _ = s.Inspect(ctx, []string{"nobody waits for it"})
				most, last = max(most, time.Since(last)), time.Now()
			}
		}()
		began := time.Now()
		wrong = round()
		close(stop)
		pause := <-stood
		if wrong == "" {
			return
		}
		t.Logf("%s, in a round of %v in which nothing went on for up to %v", wrong, time.Since(began), pause)
		if pause < 250*time.Millisecond && time.Since(began) < 10*time.Second {
			break
		}
	}
	t.Error(wrong)
}

// line is how many programs stand for key.
func line(t testing.TB, s driver.Store, key string) int { return inspect(t, s, key).Waiting }

// inLine waits until so many programs wait for key.
func inLine(t testing.TB, s driver.Store, key string, n int) {
	t.Helper()
	for end := time.Now().Add(patience(t)); line(t, s, key) < n; time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("P23: %d programs in the line, want %d", line(t, s, key), n)
		}
	}
}

// programsInOrder lets six programs wait, and releases one hold after the other: each gives the key to the next of them.
func programsInOrder(t *testing.T, e *env, held int, opts ...rowlock.Option) {
	const programs = 6
	type served struct {
		program int
		lease   *rowlock.Lease
		err     error
	}
	s := e.Open(t)
	var clients []*rowlock.Client
	for range programs {
		clients = append(clients, e.client(t, rowlock.Options{}))
	}
	holder := e.client(t, rowlock.Options{})
	steadily(t, s, func() (wrong string) {
		key := e.key(t)
		var leases []*rowlock.Lease
		for range held {
			leases = append(leases, acquire(t, holder, key, opts...))
		}
		got := make(chan served, programs)
		for i, c := range clients {
			ctx := soon(t)
			go func() {
				l, err := c.Acquire(ctx, key, opts...)
				got <- served{i, l, err}
			}()
			inLine(t, s, key, i+1)
		}
		var order []int
		for range programs {
			release1(t, leases[0])
			next := <-got
			if next.err != nil {
				t.Fatalf("program %d of %d: %v", next.program, programs, next.err)
			}
			order, leases = append(order, next.program), append(leases[1:], next.lease)
		}
		for _, l := range leases {
			release1(t, l)
		}
		if !slices.IsSorted(order) {
			return fmt.Sprintf("P23, P29: served in the order %v", order)
		}
		return ""
	})
}

// newcomers try all the time while one waits.
func newcomers(t *testing.T, e *env, opts ...rowlock.Option) {
	s := e.Open(t)
	a, b, c := e.client(t, rowlock.Options{}), e.client(t, rowlock.Options{}), e.client(t, rowlock.Options{})
	steadily(t, s, func() (wrong string) {
		key := e.key(t)
		first := acquire(t, a, key, opts...)
		var second *rowlock.Lease
		got, ctx := make(chan error, 1), soon(t)
		go func() {
			var err error
			second, err = b.Acquire(ctx, key, opts...)
			got <- err
		}()
		inLine(t, s, key, 1)
		_, err := c.TryAcquire(soon(t), key, opts...)
		var held *rowlock.HeldError
		if !errors.As(err, &held) || held.Waiting != 1 {
			wrong = fmt.Sprintf("P23, P29: TryAcquire while one waits: %v, want ErrHeld that tells of it", err)
		}
		released := make(chan error, 1)
		go func() { released <- first.Release(context.Background()) }()
		for len(got) == 0 && wrong == "" {
			l, err := c.TryAcquire(soon(t), key, opts...)
			switch {
			case err == nil && len(got) == 0:
				wrong = "P23, P29: a newcomer passed one that waits"
			case !errors.Is(err, rowlock.ErrHeld):
				t.Fatalf("TryAcquire: %v", err)
			}
			if l != nil {
				release1(t, l)
			}
		}
		if err := <-got; err != nil {
			t.Fatalf("the one that waits: %v", err)
		}
		release1(t, second)
		if err := <-released; err != nil {
			t.Errorf("release: %v", err)
		}
		return wrong
	})
}

// fairGiveUp: who leaves the line, or ends, keeps nobody waiting.
func fairGiveUp(t *testing.T, e *env) {
	s, key := e.Open(t), e.key(t)
	holder := e.client(t, rowlock.Options{})
	first := acquire(t, holder, key, rowlock.Fair())
	leaves, closed := e.client(t, rowlock.Options{}), e.client(t, rowlock.Options{})
	ctx, cancel := context.WithCancel(soon(t))
	left := make(chan error, 2)
	for i, c := range []*rowlock.Client{leaves, closed} {
		go func() {
			_, err := c.Acquire(ctx, key, rowlock.Fair())
			left <- err
		}()
		inLine(t, s, key, i+1)
	}
	if err := closed.Close(soon(t)); err != nil {
		t.Errorf("close: %v", err)
	}
	if err := <-left; !errors.Is(err, rowlock.ErrClosed) {
		t.Errorf("a caller of a client that was closed: %v", err)
	}
	cancel()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Errorf("a caller that gave up: %v", err)
	}
	until(t, "P29: those that left stand no more", func() bool { return line(t, s, key) == 0 })
	release1(t, first)
	release1(t, acquire(t, e.client(t, rowlock.Options{}), key, rowlock.Fair()))
}

// deadInLine kills programs that wait, between two that live.
func deadInLine(t *testing.T, e *env) {
	const dead = 6
	s, key := e.Open(t), e.key(t)
	first := acquire(t, e.client(t, rowlock.Options{}), key, rowlock.Fair())
	var children []*process
	for i := range dead {
		children = append(children, e.start(t, job{Role: "hold", Key: key, TTL: longTTL, Fair: true}))
		inLine(t, s, key, i+1)
	}
	last := acquiring(t, e.client(t, rowlock.Options{}), key, rowlock.Fair())
	inLine(t, s, key, dead+1)
	for _, p := range children {
		p.kill()
	}
	start := time.Now()
	release1(t, first)
	release1(t, last())
	const most = driver.EntryTime + 2*time.Second // the life of an entry, and a claim that began before its end
	if took := time.Since(start); took > most {
		t.Errorf("P29: %d dead programs in the line cost %v", dead, took)
	}
}

// waitingInfo: Inspect and List of a Client tell of the programs that wait.
func waitingInfo(t *testing.T, e *env) {
	key := e.key(t)
	a, b := e.client(t, rowlock.Options{}), e.client(t, rowlock.Options{})
	first := acquire(t, a, key, rowlock.Fair())
	ctx, cancel := context.WithCancel(soon(t))
	defer cancel()
	left := make(chan error, 1)
	go func() {
		_, err := b.Acquire(ctx, key, rowlock.Fair())
		left <- err
	}()
	until(t, "P23: one waits for a key that is held", func() bool {
		info, err := a.Inspect(soon(t), key)
		if err != nil {
			t.Fatalf("inspect: %v", err)
		}
		return info.Waiting == 1 && !info.WaitingSince.IsZero() && info.Held
	})
	cancel()
	<-left
	release1(t, first)
}
