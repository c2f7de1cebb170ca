// P23: programs that wait with Fair are served in the order in which they asked.

package locktest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/driver"
)

var fairCases = []testCase{
	{name: "P23_ProgramsInOrder", run: func(t *testing.T, e *env) { programsInOrder(t, e, 1) }, needs: tickets},
	{name: "P23_SlotsInOrder", run: func(t *testing.T, e *env) { programsInOrder(t, e, 2, rowlock.Slots(2)) }, needs: func(e *env) bool { return tickets(e) && slots(e) }},
	{name: "P23_NewcomersDoNotPass", run: newcomers, needs: tickets},
	{name: "P23_GiveUp", run: fairGiveUp, needs: tickets},
	{name: "P23_TheDeadCostOneTicket", run: deadInLine, needs: func(e *env) bool { return tickets(e) && processes(e) }},
	{name: "P23_Info", run: waitingInfo, needs: tickets},
}

// steadily runs a round until it is in order. Where it is not, and neither the machine nor the server has stood still
// for as long as ends tickets, that is a fault; else it says nothing, and is run again.
func steadily(t *testing.T, s driver.Store, round func() (wrong string)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 4*patience)
	defer cancel()
	wrong := ""
	for end := time.Now().Add(2 * patience); time.Now().Before(end); {
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
				_, _ = s.(driver.Tickets).Lines(ctx, []string{"nobody waits for it"})
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
		if pause < driver.TicketTime/4 && time.Since(began) < 10*time.Second {
			break
		}
	}
	t.Error(wrong)
}

// inLine waits until so many programs wait for key.
func inLine(t testing.TB, s driver.Store, key string, n int) {
	t.Helper()
	for end := time.Now().Add(patience); line(t, s, key).Waiting < n; time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("P23: %d programs in the line, want %d", line(t, s, key).Waiting, n)
		}
	}
}

func programsInOrder(t *testing.T, e *env, held int, opts ...rowlock.Option) {
	const programs = 6
	s := e.Open(t)
	var clients []*rowlock.Client
	for range programs {
		clients = append(clients, e.client(t, rowlock.Options{}))
	}
	holder := e.client(t, rowlock.Options{})
	opts = append(opts, rowlock.Fair())
	steadily(t, s, func() string {
		key := e.key(t)
		var first []*rowlock.Lease
		for range held {
			first = append(first, acquire(t, holder, key, opts...))
		}
		var mu sync.Mutex
		var order []int
		var wg sync.WaitGroup
		for i, c := range clients {
			wg.Go(func() {
				l, err := c.Acquire(soon(t), key, opts...)
				if err != nil {
					t.Errorf("program %d: %v", i, err)
					return
				}
				mu.Lock()
				order = append(order, i)
				mu.Unlock()
				time.Sleep(5 * time.Millisecond)
				release1(t, l)
			})
			inLine(t, s, key, i+1)
		}
		for _, l := range first {
			release1(t, l)
		}
		wg.Wait()
		want := []int{0, 1, 2, 3, 4, 5}
		if held > 1 { // two may be granted at the same moment, and note it the other way round
			for i := range order {
				if i > 0 && order[i] == order[i-1]-1 {
					order[i], order[i-1] = order[i-1], order[i]
				}
			}
		}
		if !slices.Equal(order, want) {
			return fmt.Sprintf("P23: served in the order %v", order)
		}
		return ""
	})
}

// newcomers try all the time while one waits.
func newcomers(t *testing.T, e *env) {
	s := e.Open(t)
	a, b, c := e.client(t, rowlock.Options{}), e.client(t, rowlock.Options{}), e.client(t, rowlock.Options{})
	steadily(t, s, func() (wrong string) {
		key := e.key(t)
		first := acquire(t, a, key, rowlock.Fair())
		var second *rowlock.Lease
		got, ctx := make(chan error, 1), soon(t)
		go func() {
			var err error
			second, err = b.Acquire(ctx, key, rowlock.Fair())
			got <- err
		}()
		inLine(t, s, key, 1)
		_, err := c.TryAcquire(soon(t), key, rowlock.Fair())
		var held *rowlock.HeldError
		if !errors.As(err, &held) || held.Waiting != 1 {
			wrong = fmt.Sprintf("P23: TryAcquire while one waits: %v, want ErrHeld that tells of it", err)
		}
		released := make(chan error, 1)
		go func() { released <- first.Release(context.Background()) }()
		for len(got) == 0 && wrong == "" {
			l, err := c.TryAcquire(soon(t), key, rowlock.Fair())
			switch {
			case err == nil && len(got) == 0:
				wrong = "P23: a newcomer passed one that waits"
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
	start := time.Now()
	for line(t, s, key).Waiting > 0 {
		if time.Since(start) > patience {
			t.Fatal("P23: tickets of those that left are still there")
		}
		time.Sleep(2 * time.Millisecond)
	}
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
	if took := time.Since(start); took > dead*driver.TicketTime {
		t.Errorf("P23: %d dead programs in the line cost %v", dead, took)
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
	start := time.Now()
	for {
		info, err := a.Inspect(soon(t), key)
		if err != nil {
			t.Fatalf("inspect: %v", err)
		}
		if info.Waiting == 1 && !info.WaitingSince.IsZero() && info.Held {
			break
		}
		if time.Since(start) > patience {
			t.Fatalf("P23: %+v, want one that waits", info)
		}
		time.Sleep(10 * time.Millisecond)
	}
	cancel()
	<-left
	release1(t, first)
}
