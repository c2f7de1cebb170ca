package gocronlock_test

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-co-op/gocron/v2"

	"github.com/rowlock/rowlock"
	gocronlock "github.com/rowlock/rowlock/adapters/gocron"
	"github.com/rowlock/rowlock/internal/testdb"
	"github.com/rowlock/rowlock/internal/testserver"
	"github.com/rowlock/rowlock/memory"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// runs notes who ran the job, and when.
type runs struct {
	mu  sync.Mutex
	who []string
	at  []time.Time
}

func (r *runs) note(who string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.who, r.at = append(r.who, who), append(r.at, time.Now())
}

func (r *runs) all() ([]string, []time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.who), slices.Clone(r.at)
}

// scheduler starts one that runs the job every period, the first time at start.
func (r *runs) scheduler(t *testing.T, who string, start time.Time, period time.Duration, how gocron.SchedulerOption) gocron.Scheduler {
	t.Helper()
	s, err := gocron.NewScheduler(how)
	must(t, err)
	_, err = s.NewJob(gocron.DurationJob(period), gocron.NewTask(func() { r.note(who) }),
		gocron.WithName("job"), gocron.WithStartAt(gocron.WithStartDateTime(start)))
	must(t, err)
	s.Start()
	t.Cleanup(func() { _ = s.Shutdown() })
	return s
}

// TestLocker: two schedulers, of which one has a late clock, run a short job once a
// tick. Without MinHold it would run twice.
func TestLocker(t *testing.T) {
	t.Parallel()
	const (
		period = time.Second
		skew   = 150 * time.Millisecond
		ticks  = 100
	)
	for name, opts := range map[string][]rowlock.Option{"MinHold as it is": nil, "MinHold 0": {rowlock.MinHold(0)}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := memory.New()
				var r runs
				start := time.Now().Add(500 * time.Millisecond)
				r.scheduler(t, "one", start, period, gocron.WithDistributedLocker(gocronlock.NewLocker(testdb.Client(t, store, time.Second), opts...)))
				r.scheduler(t, "other", start.Add(skew), period, gocron.WithDistributedLocker(gocronlock.NewLocker(testdb.Client(t, store, time.Second), opts...)))
				time.Sleep(time.Until(start.Add((ticks-1)*period + period/2)))
				_, at := r.all()
				var perTick [ticks]int
				for _, a := range at {
					if tick := int(a.Sub(start.Add(-period/4)) / period); tick >= 0 && tick < ticks {
						perTick[tick]++
					}
				}
				most := slices.Max(perTick[:])
				if opts == nil && (most > 1 || slices.Min(perTick[:]) < 1) {
					t.Errorf("runs per tick: %v, want one each", perTick)
				}
				if opts != nil && most < 2 {
					t.Errorf("runs per tick: %v: the test is worth nothing, the job never ran twice", perTick)
				}
			})
		})
	}
}

// elect runs an Elector until the test or the returned function ends it, which gives Run's error.
func elect(t *testing.T, e *gocronlock.Elector) (resign func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx) }()
	resign = sync.OnceValue(func() error { cancel(); return <-done })
	t.Cleanup(func() { _ = resign() })
	return resign
}

func leads(t *testing.T, e *gocronlock.Elector) {
	t.Helper()
	eventually(t, func() bool { return e.IsLeader(t.Context()) == nil })
}

// TestElector: one of two schedulers runs all jobs; when it resigns or its lease
// ends, the other does.
func TestElector(t *testing.T) { t.Parallel(); synctest.Test(t, testElector) }

func testElector(t *testing.T) {
	ctx, store := t.Context(), memory.New()
	const period, ttl = 100 * time.Millisecond, time.Second
	var r runs
	first := gocronlock.NewElector(testdb.Client(t, store, ttl), "leader")
	second := gocronlock.NewElector(testdb.Client(t, store, ttl), "leader")
	if err := first.IsLeader(ctx); !errors.Is(err, gocronlock.ErrNotLeader) {
		t.Errorf("before Run: %v", err)
	}
	resign := elect(t, first)
	leads(t, first)
	if err := first.Run(ctx); !errors.Is(err, rowlock.ErrInvalid) {
		t.Errorf("a second Run: %v", err)
	}
	elect(t, second)
	begin := time.Now().Add(200 * time.Millisecond)
	one := r.scheduler(t, "first", begin, period, gocron.WithDistributedElector(first))
	r.scheduler(t, "second", begin, period, gocron.WithDistributedElector(second))
	time.Sleep(2 * ttl)
	who, _ := r.all()
	if len(who) < 3 || slices.Contains(who, "second") {
		t.Errorf("%d runs, by %q", len(who), slices.Compact(who))
	}
	if err := second.IsLeader(ctx); !errors.Is(err, gocronlock.ErrNotLeader) {
		t.Errorf("a second leader: %v", err)
	}
	must(t, one.Shutdown())
	if err := resign(); !errors.Is(err, context.Canceled) {
		t.Errorf("Run whose context ended: %v", err)
	}
	eventually(t, func() bool { who, _ := r.all(); return slices.Contains(who, "second") })
	if err := first.IsLeader(ctx); !errors.Is(err, gocronlock.ErrNotLeader) || !errors.Is(err, context.Canceled) {
		t.Errorf("after the hand-over: %v", err)
	}

	store.Expire("leader") // as after a long pause
	elect(t, first)
	leads(t, first)
	eventually(t, func() bool { return errors.Is(second.IsLeader(ctx), gocronlock.ErrNotLeader) })
}

// TestElectorOfAFrozenProcess: a leader whose lease ended is none at its first look, before
// anything else has told it so.
func TestElectorOfAFrozenProcess(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		clock := &jumping{Store: memory.New()}
		locks, err := rowlock.New(clock, rowlock.Options{ReapInterval: -1})
		must(t, err)
		e := gocronlock.NewElector(locks, "leader")
		resign := elect(t, e)
		synctest.Wait()
		must(t, e.IsLeader(t.Context()))
		clock.skew.Store(int64(time.Hour)) // the process stood still
		if err := e.IsLeader(t.Context()); !errors.Is(err, gocronlock.ErrNotLeader) || !errors.Is(err, rowlock.ErrLost) {
			t.Errorf("P2: after a pause of an hour: %v", err)
		}
		_ = resign()
		must(t, locks.Close(t.Context()))
		if err := e.Run(t.Context()); !errors.Is(err, rowlock.ErrClosed) || !errors.Is(e.IsLeader(t.Context()), rowlock.ErrClosed) {
			t.Errorf("with a closed client: Run = %v, IsLeader = %v", err, e.IsLeader(t.Context()))
		}
	})
}

// jumping is a store whose clock of trust can jump.
type jumping struct {
	*memory.Store
	skew atomic.Int64
}

func (s *jumping) Now() time.Duration { return s.Store.Now() + time.Duration(s.skew.Load()) }

// TestElectorOfADeadProcess: when the leader's process is killed another leads as
// soon as the TTL is over.
func TestElectorOfADeadProcess(t *testing.T) {
	testserver.Long(t)
	t.Parallel()
	const ttl = 2 * time.Second
	if dsn := os.Getenv("GOCRONLOCK_TEST_LEADER"); dsn != "" { // the process
		e := gocronlock.NewElector(testdb.Client(t, testdb.Open(t, dsn), ttl), "leader")
		elect(t, e)
		leads(t, e)
		_, _ = os.Stdout.WriteString("leads\n")
		time.Sleep(time.Minute)
		return
	}
	dsn := testdb.Locks(t, testserver.MySQL)
	leader := exec.Command(os.Args[0], "-test.run=^TestElectorOfADeadProcess$")
	leader.Env = append(os.Environ(), "GOCRONLOCK_TEST_LEADER="+dsn)
	out, err := leader.StdoutPipe()
	must(t, err)
	must(t, leader.Start())
	defer func() { _ = leader.Process.Kill(); _ = leader.Wait() }()
	said := make([]byte, len("leads\n"))
	_, err = io.ReadFull(out, said)
	must(t, err)
	if string(said) != "leads\n" {
		t.Fatalf("the leader says %q", said)
	}
	var r runs
	next := gocronlock.NewElector(testdb.Client(t, testdb.Open(t, dsn), ttl), "leader")
	elect(t, next)
	r.scheduler(t, "next", time.Now().Add(100*time.Millisecond), 100*time.Millisecond, gocron.WithDistributedElector(next))
	time.Sleep(ttl + ttl/2)
	if who, _ := r.all(); len(who) > 0 {
		t.Fatal("two leaders")
	}
	must(t, leader.Process.Kill())
	killed := time.Now()
	eventually(t, func() bool { who, _ := r.all(); return len(who) > 0 })
	_, at := r.all()
	if took := at[0].Sub(killed); took > ttl+2*time.Second {
		t.Errorf("the next one led after %v", took)
	}
}

// TestLockerOfADeadProcess: a process that is killed in its job costs the others at
// most one run of it, for any server and strategy: its lock is never granted for
// longer than the time between two runs. It asks the database how long the dead
// holder's key stays taken, because a count of runs would be one of seconds.
func TestLockerOfADeadProcess(t *testing.T) {
	t.Parallel()
	const period = 3 * time.Second
	lockers := map[string][]rowlock.Option{
		"nothing said": nil,
		"Period":       {gocronlock.Period(period)},
		"TTL":          {rowlock.TTL(2 * time.Second), rowlock.MinHold(period / 2)},
	}
	if dsn := os.Getenv("GOCRONLOCK_TEST_POD"); dsn != "" { // the process
		s, err := gocron.NewScheduler(gocron.WithDistributedLocker(
			gocronlock.NewLocker(testdb.Client(t, testdb.Open(t, dsn), 0), lockers[os.Getenv("GOCRONLOCK_TEST_OPTIONS")]...)))
		must(t, err)
		_, err = s.NewJob(gocron.DurationJob(period), gocron.NewTask(func() {
			_, _ = os.Stdout.WriteString("runs\n")
			time.Sleep(time.Minute)
		}), gocron.WithName("job"), gocron.WithStartAt(gocron.WithStartImmediately()))
		must(t, err)
		s.Start()
		time.Sleep(time.Minute)
		return
	}
	for _, kind := range testserver.Some(t, testserver.MySQL, testserver.MariaDB) {
		for name, opts := range lockers {
			t.Run(kind+"/"+name, func(t *testing.T) {
				t.Parallel()
				dsn := testdb.Locks(t, kind)
				pod := exec.Command(os.Args[0], "-test.run=^TestLockerOfADeadProcess$")
				pod.Env = append(os.Environ(), "GOCRONLOCK_TEST_POD="+dsn, "GOCRONLOCK_TEST_OPTIONS="+name)
				out, err := pod.StdoutPipe()
				must(t, err)
				must(t, pod.Start())
				defer func() { _ = pod.Process.Kill(); _ = pod.Wait() }()
				said := make([]byte, len("runs\n"))
				_, err = io.ReadFull(out, said)
				must(t, err)
				must(t, pod.Process.Kill())
				_ = pod.Wait()

				others := testdb.Client(t, testdb.Open(t, dsn), 0)
				info, err := others.Inspect(t.Context(), "job")
				must(t, err)
				if info.Left > period {
					t.Errorf("the dead process keeps the job's lock for %v: up to %d runs in a row are refused to everybody, at most 1 may be", info.Left, 1+int(info.Left/period))
				}
				locker := gocronlock.NewLocker(others, opts...)
				eventually(t, func() bool {
					held, err := locker.Lock(t.Context(), "job")
					if err != nil && !errors.Is(err, rowlock.ErrHeld) {
						t.Fatal(err)
					}
					return err == nil && held.Unlock(t.Context()) == nil
				})
			})
		}
	}
}

// TestPeriod: the TTL and the MinHold follow the period.
func TestPeriod(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name      string
		opts      []rowlock.Option
		ttl, kept time.Duration
	}{
		{"nothing said", nil, 3 * time.Second, 500 * time.Millisecond},
		{"a second", []rowlock.Option{gocronlock.Period(time.Second)}, time.Second, 500 * time.Millisecond},
		{"less", []rowlock.Option{gocronlock.Period(200 * time.Millisecond)}, time.Second, 100 * time.Millisecond},
		{"ten seconds", []rowlock.Option{gocronlock.Period(10 * time.Second)}, 8 * time.Second, 5 * time.Second},
		{"a day", []rowlock.Option{gocronlock.Period(24 * time.Hour)}, 30 * time.Second, 30 * time.Second},
		{"clocks far apart", []rowlock.Option{gocronlock.Period(time.Minute), rowlock.MinHold(50 * time.Second)}, 30 * time.Second, 50 * time.Second},
		{"a TTL of one's own", []rowlock.Option{rowlock.TTL(time.Minute)}, time.Minute, 500 * time.Millisecond},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				locks, err := rowlock.New(memory.New(), rowlock.Options{ReapInterval: -1})
				must(t, err)
				defer func() { must(t, locks.Close(t.Context())) }()
				held, err := gocronlock.NewLocker(locks, c.opts...).Lock(t.Context(), "job")
				must(t, err)
				info, err := locks.Inspect(t.Context(), "job")
				must(t, err)
				if want := max(c.ttl, c.kept); info.Left != want {
					t.Errorf("granted for %v, want %v", info.Left, want)
				}
				must(t, held.Unlock(t.Context()))
				info, err = locks.Inspect(t.Context(), "job")
				must(t, err)
				if info.Left != c.kept {
					t.Errorf("kept for %v after the job, want %v", info.Left, c.kept)
				}
			})
		})
	}
	for _, bad := range []time.Duration{0, -time.Second} {
		locks, err := rowlock.New(memory.New(), rowlock.Options{})
		must(t, err)
		if _, err := gocronlock.NewLocker(locks, gocronlock.Period(bad)).Lock(t.Context(), "job"); !errors.Is(err, rowlock.ErrInvalid) || !strings.Contains(err.Error(), bad.String()) {
			t.Errorf("Period(%v): %v, want ErrInvalid that names it", bad, err)
		}
		must(t, locks.Close(t.Context()))
	}
}

func eventually(t *testing.T, condition func() bool) {
	t.Helper()
	for end := time.Now().Add(testserver.Patience(t)); !condition(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("still not")
		}
	}
}
