package locktest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/driver"
)

// jobVariable tells a test binary that it is a child, and what to do there.
const jobVariable = "ROWLOCK_LOCKTEST_CHILD"

// job is what a child process does.
type job struct {
	Role    string // count, hold, trust, keep, turns, groups or lead
	Config  string // Harness.Config
	Key     string
	Keys    []string // keep, groups
	TTL     time.Duration
	MinHold time.Duration
	Rounds  int           // count: how often to increment; turns: how many for each
	Waiters int           // turns
	File    string        // count: the number, as text
	For     time.Duration // trust: how long to take leases
	Shared  bool          // hold, trust: the mode
	Slots   int
	Fair    bool // hold
}

// options are those of the mode.
func (j job) options(more ...rowlock.Option) []rowlock.Option {
	if j.Shared {
		more = append(more, rowlock.Shared())
	}
	if j.Slots > 0 {
		more = append(more, rowlock.Slots(j.Slots))
	}
	if j.Fair {
		more = append(more, rowlock.Fair())
	}
	return more
}

// Main is the TestMain of a backend with a Harness.Config: it runs the tests, or
// in a child process the child's part on the Store that open makes. It does not
// return.
func Main(m *testing.M, open func(config string) (driver.Store, error)) {
	text := os.Getenv(jobVariable)
	if text == "" {
		os.Exit(m.Run())
	}
	if err := child(text, open); err != nil {
		fmt.Println("error", strings.ReplaceAll(err.Error(), "\n", " "))
		os.Exit(1)
	}
	os.Exit(0)
}

func child(text string, open func(string) (driver.Store, error)) error {
	var j job
	if err := json.Unmarshal([]byte(text), &j); err != nil {
		return err
	}
	store, err := open(j.Config)
	if err != nil {
		return err
	}
	c, err := rowlock.New(store, rowlock.Options{TTL: j.TTL, ReapInterval: -1})
	if err != nil {
		return err
	}
	// A child ends with its parent: the other end of its input closes then.
	input := make(chan string)
	go func() {
		for scan := bufio.NewScanner(os.Stdin); scan.Scan(); {
			input <- scan.Text()
		}
		os.Exit(2)
	}()
	ctx, cancel := context.WithCancel(context.Background()) // the parent is patient for it
	defer cancel()
	switch j.Role {
	case "count":
		err = j.count(ctx, c)
	case "hold":
		err = j.hold(ctx, c, input)
	case "trust":
		err = j.trust(ctx, c)
	case "keep":
		err = j.keep(ctx, c, input)
	case "turns":
		err = j.turns(ctx, c, input)
	case "groups":
		err = j.groups(ctx, c)
	case "lead":
		err = j.lead(ctx, c, store)
	default:
		err = fmt.Errorf("no role %q", j.Role)
	}
	if err == nil {
		err = c.Close(ctx)
	}
	if closer, ok := store.(driver.Closer); ok && err == nil {
		err = closer.Close()
	}
	if err == nil {
		fmt.Println("done")
	}
	return err
}

// count increments the number in a file, guarded by nothing but the lock.
func (j job) count(ctx context.Context, c *rowlock.Client) error {
	for range j.Rounds {
		lease, err := c.Acquire(ctx, j.Key)
		if err != nil {
			return err
		}
		if err := increment(j.File); err != nil {
			return err
		}
		if err := lease.Release(ctx); err != nil {
			return err
		}
	}
	return nil
}

// increment reads, yields and writes.
func increment(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	n, err := strconv.Atoi(string(text))
	if err != nil {
		return err
	}
	runtime.Gosched()
	time.Sleep(time.Millisecond)
	return os.WriteFile(file, []byte(strconv.Itoa(n+1)), 0o600)
}

// hold takes the key, says "held" with the token, and looks at the lease until it
// is lost ("lost" with the reason and the span of looks that found it held), or
// until it is told to release it ("released").
func (j job) hold(ctx context.Context, c *rowlock.Client, input <-chan string) error {
	lease, err := c.Acquire(ctx, j.Key, j.options(rowlock.MinHold(j.MinHold))...)
	if err != nil {
		return err
	}
	fmt.Println("held", lease.Token())
	var s span
	for s.look(lease) {
		select {
		case <-input:
			s.look(lease)
			switch err := lease.Release(ctx); {
			case err == nil:
				fmt.Println("released", s)
				return nil
			case !errors.Is(err, rowlock.ErrLost):
				return err
			}
		case <-time.After(time.Millisecond):
		}
	}
	fmt.Println("lost", reasonOf(lease.Err()), s)
	return nil
}

// trust takes leases and looks at them, until they are lost or for a random time,
// and says the span of each.
func (j job) trust(ctx context.Context, c *rowlock.Client) error {
	for end := time.Now().Add(j.For); time.Now().Before(end); {
		lease, err := c.Acquire(ctx, j.Key, j.options()...)
		if err != nil {
			return err
		}
		var s span
		s.token = lease.Token()
		s.watch(lease, rand.N(j.TTL))
		if err := lease.Release(ctx); err != nil && !errors.Is(err, rowlock.ErrLost) {
			return err
		}
		fmt.Println("span", s)
	}
	return nil
}

// span is the time in which the looks at a lease found it held, by the machine's
// wall clock: each look is dated before it is made, so that a process that stands
// still between the two errs to the harmless side.
type span struct {
	token       int64
	first, last int64 // nanoseconds since 1970; 0: no look found it held
}

// look looks once and reports whether the lease is held.
func (s *span) look(l *rowlock.Lease) bool {
	now := time.Now().UnixNano()
	if l.Err() != nil {
		return false
	}
	if s.first == 0 {
		s.first = now
	}
	s.last = now
	return true
}

// watch looks again and again while the lease is held, for d at most.
func (s *span) watch(l *rowlock.Lease, d time.Duration) {
	for end := time.Now().Add(d); s.look(l) && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
}

func (s span) String() string { return fmt.Sprint(s.token, s.first, s.last) }

func parseSpan(text string) (s span, err error) {
	_, err = fmt.Sscan(text, &s.token, &s.first, &s.last)
	return s, err
}
