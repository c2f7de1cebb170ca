package cronlock_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/robfig/cron/v3"

	"github.com/rowlock/rowlock"
	cronlock "github.com/rowlock/rowlock/adapters/cron"
	"github.com/rowlock/rowlock/driver"
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

// client makes a client with the default TTL.
func client(t *testing.T, store driver.Store) *rowlock.Client {
	t.Helper()
	return testdb.Client(t, store, 0)
}

// logger keeps what it is told.
type logger struct {
	mu  sync.Mutex
	out bytes.Buffer
}

func (l *logger) Info(msg string, keysAndValues ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	fmt.Fprintln(&l.out, append([]any{"info", msg}, keysAndValues...)...)
}

func (l *logger) Error(err error, msg string, keysAndValues ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	fmt.Fprintln(&l.out, append([]any{"error", msg, err}, keysAndValues...)...)
}

// take returns what was logged since the last time.
func (l *logger) take() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.out.Reset()
	return l.out.String()
}

// late is a schedule of a program whose clock is late.
type late struct {
	cron.Schedule
	by time.Duration
}

func (l late) Next(t time.Time) time.Time { return l.Schedule.Next(t.Add(-l.by)).Add(l.by) }

// TestSchedulers: two schedulers of the real library, of which one has a late clock, run a short job once at each of its
// times: grants are MinHold apart by the server's clock, of which tokens are made, and the other scheduler is refused.
func TestSchedulers(t *testing.T) {
	t.Parallel()
	const minHold = time.Second
	for _, kind := range testserver.Some(t, testserver.MySQL, testserver.MariaDB) {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			dsn := testdb.Locks(t, kind)
			tokens := make(chan int64, 100)
			var logs logger
			second := cron.NewParser(cron.Second | cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow)
			times, err := second.Parse("*/2 * * * * *")
			must(t, err)
			for _, by := range []time.Duration{0, 300 * time.Millisecond} {
				scheduler := cron.New()
				locks := client(t, testdb.Open(t, dsn))
				scheduler.Schedule(late{times, by}, cronlock.Job(&logs, locks, "job", func(_ context.Context, lease *rowlock.Lease) error {
					tokens <- lease.Token()
					return nil
				}, cronlock.Period(2*minHold)))
				scheduler.Start()
				defer func() { <-scheduler.Stop().Done() }()
			}
			said, last, deadline := "", int64(0), time.After(testserver.Patience(t))
			for n := 0; n < 3 || !strings.Contains(said, "another program has this run"); n++ {
				select {
				case token := <-tokens:
					if apart := time.Duration((token-last)/1024) * time.Microsecond; apart < minHold {
						t.Errorf("two runs were granted %v apart, want at least %v", apart, minHold)
					}
					last = token
				case <-deadline:
					t.Fatalf("%d runs, and the log: %s", n, said)
				}
				said += logs.take()
			}
		})
	}
}

// TestJobOfADeadProcess: a program that is killed in its job keeps the job's lock for no longer than the time between two
// runs, so that it costs the others at most one of them. The database says for how long.
func TestJobOfADeadProcess(t *testing.T) {
	t.Parallel()
	const period = 3 * time.Second
	if dsn := os.Getenv("CRONLOCK_TEST_POD"); dsn != "" { // the program
		scheduler := cron.New()
		_, err := scheduler.AddJob("@every 1s", cronlock.Job(nil, client(t, testdb.Open(t, dsn)), "job", func(context.Context, *rowlock.Lease) error {
			_, _ = os.Stdout.WriteString("runs\n")
			time.Sleep(time.Minute)
			return nil
		}, cronlock.Period(period)))
		must(t, err)
		scheduler.Run()
		return
	}
	for _, kind := range testserver.Some(t, testserver.MySQL, testserver.MariaDB) {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			dsn := testdb.Locks(t, kind)
			pod := exec.Command(os.Args[0], "-test.run=^TestJobOfADeadProcess$")
			pod.Env = append(os.Environ(), "CRONLOCK_TEST_POD="+dsn)
			out, err := pod.StdoutPipe()
			must(t, err)
			must(t, pod.Start())
			defer func() { _ = pod.Process.Kill(); _ = pod.Wait() }()
			_, err = io.ReadFull(out, make([]byte, len("runs\n")))
			must(t, err)
			must(t, pod.Process.Kill())
			_ = pod.Wait()

			others := client(t, testdb.Open(t, dsn))
			info, err := others.Inspect(t.Context(), "job")
			must(t, err)
			if info.Left > period {
				t.Errorf("the dead program keeps the job's lock for %v: up to %d runs in a row are refused to everybody, at most 1 may be", info.Left, 1+int(info.Left/period))
			}
			var logs logger
			ran := make(chan struct{})
			scheduler := cron.New()
			_, err = scheduler.AddJob("@every 1s", cronlock.Job(&logs, others, "job", func(context.Context, *rowlock.Lease) error {
				select {
				case <-ran:
				default:
					close(ran)
				}
				return nil
			}, cronlock.Period(period)))
			must(t, err)
			scheduler.Start()
			defer func() { <-scheduler.Stop().Done() }()
			select {
			case <-ran:
			case <-time.After(testserver.Patience(t)):
				t.Errorf("nobody else runs the job. Log: %s", logs.take())
			}
		})
	}
}

// TestLog: what becomes of a run is logged in words that fit.
func TestLog(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	store := memory.New()
	locks := client(t, store)
	var logs logger
	run := func(fn func(context.Context, *rowlock.Lease) error, opts ...rowlock.Option) string {
		cronlock.Job(&logs, locks, "job", fn, append(opts, rowlock.MinHold(0))...).Run()
		return logs.take()
	}
	quiet := func(context.Context, *rowlock.Lease) error { return nil }
	for _, c := range []struct{ name, said, want string }{
		{"in good order", run(quiet), ""},
		{"an error", run(func(context.Context, *rowlock.Lease) error { return errors.New("no paper") }), "error a job failed, or may not have been alone no paper key job\n"},
		{"an error of the job that is like a refusal", run(func(context.Context, *rowlock.Lease) error { return rowlock.ErrHeld }), "error a job failed"},
		{"lost", run(func(ctx context.Context, lease *rowlock.Lease) error {
			store.Expire("job")
			_ = lease.Renew(ctx)
			<-ctx.Done()
			return nil
		}), "error a job failed, or may not have been alone rowlock: lease of \"job\""},
		{"no function", run(nil), "the function is nil"},
		{"a bad period", run(quiet, cronlock.Period(-time.Second)), "-1s"},
	} {
		if c.want == "" && c.said != "" || !strings.Contains(c.said, c.want) {
			t.Errorf("%s: the log says %q, want %q", c.name, c.said, c.want)
		}
	}

	other, err := locks.Acquire(ctx, "job")
	must(t, err)
	if said := run(quiet); !strings.HasPrefix(said, "info skip: another program has this run key job err ") {
		t.Errorf("held: the log says %q", said)
	}
	must(t, other.Release(ctx))
	cronlock.Job(&logs, nil, "job", quiet).Run()
	if said := logs.take(); !strings.Contains(said, "the Locker is nil") {
		t.Errorf("without a Locker the log says %q", said)
	}
}

// TestPanic: a job that panics has released its lock, and the panic is passed on.
func TestPanic(t *testing.T) {
	t.Parallel()
	locks := client(t, memory.New())
	var logs logger
	bad := cron.FuncJob(func() { panic("no paper") })
	cron.NewChain(cron.Recover(&logs), cronlock.Wrap(&logs, locks, "job", rowlock.MinHold(0))).Then(bad).Run()
	if said := logs.take(); !strings.Contains(said, "no paper") {
		t.Errorf("the log says %q", said)
	}
	lease, err := locks.TryAcquire(t.Context(), "job")
	must(t, err)
	must(t, lease.Release(t.Context()))
}

// TestClose: the end of the Client ends the context of a job that runs, and waits for the job.
func TestClose(t *testing.T) {
	t.Parallel()
	locks := client(t, memory.New())
	began := make(chan struct{})
	var ended bool
	go cronlock.Job(&logger{}, locks, "job", func(ctx context.Context, _ *rowlock.Lease) error {
		close(began)
		<-ctx.Done()
		ended = true
		return nil
	}).Run()
	<-began
	must(t, locks.Close(t.Context()))
	if !ended {
		t.Error("Close has not waited for the job")
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
		{"a second", []rowlock.Option{cronlock.Period(time.Second)}, time.Second, 500 * time.Millisecond},
		{"less", []rowlock.Option{cronlock.Period(200 * time.Millisecond)}, time.Second, 100 * time.Millisecond},
		{"ten seconds", []rowlock.Option{cronlock.Period(10 * time.Second)}, 8 * time.Second, 5 * time.Second},
		{"a day", []rowlock.Option{cronlock.Period(24 * time.Hour)}, 30 * time.Second, 30 * time.Second},
		{"clocks far apart", []rowlock.Option{cronlock.Period(time.Minute), rowlock.MinHold(50 * time.Second)}, 30 * time.Second, 50 * time.Second},
		{"a TTL of one's own", []rowlock.Option{rowlock.TTL(time.Minute)}, time.Minute, 500 * time.Millisecond},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				locks, err := rowlock.New(memory.New(), rowlock.Options{ReapInterval: -1})
				must(t, err)
				defer func() { must(t, locks.Close(t.Context())) }()
				left := func() time.Duration {
					info, err := locks.Inspect(t.Context(), "job")
					must(t, err)
					return info.Left
				}
				cronlock.Job(&logger{}, locks, "job", func(context.Context, *rowlock.Lease) error {
					if want := max(c.ttl, c.kept); left() != want {
						t.Errorf("granted for %v, want %v", left(), want)
					}
					return nil
				}, c.opts...).Run()
				if left() != c.kept {
					t.Errorf("kept for %v after the job, want %v", left(), c.kept)
				}
			})
		})
	}
}
