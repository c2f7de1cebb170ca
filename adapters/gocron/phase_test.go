package gocronlock_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-co-op/gocron/v2"

	"github.com/rowlock/rowlock"
	gocronlock "github.com/rowlock/rowlock/adapters/gocron"
	"github.com/rowlock/rowlock/memory"
)

// TestPhase: two processes, the second of which starts two minutes after the first, share a job that is due each five
// minutes. What README.md says of CronJob, of DurationJob and of a longer MinHold is so.
func TestPhase(t *testing.T) {
	const five = 5 * time.Minute
	times := func() gocron.JobDefinition { return gocron.CronJob("*/5 * * * *", false) }
	distances := func() gocron.JobDefinition { return gocron.DurationJob(five) }
	for _, c := range []struct {
		name string
		job  func() gocron.JobDefinition // of each scheduler its own: it keeps the schedule
		opts []rowlock.Option
		runs int
	}{
		{"times of day", times, nil, 12},
		{"from each start", distances, nil, 12 + 11},
		{"from each start, kept", distances, []rowlock.Option{rowlock.MinHold(five - 10*time.Second)}, 12},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store, runs := memory.New(), make(chan struct{}, 100)
				for range 2 {
					locks, err := rowlock.New(store, rowlock.Options{ReapInterval: -1})
					must(t, err)
					defer func() { must(t, locks.Close(t.Context())) }()
					s, err := gocron.NewScheduler(gocron.WithDistributedLocker(
						gocronlock.NewLocker(locks, append([]rowlock.Option{gocronlock.Period(five)}, c.opts...)...)))
					must(t, err)
					_, err = s.NewJob(c.job(), gocron.NewTask(func() { runs <- struct{}{} }), gocron.WithName("job"))
					must(t, err)
					s.Start()
					defer func() { must(t, s.Shutdown()) }()
					time.Sleep(2 * time.Minute)
				}
				time.Sleep(57 * time.Minute) // 61 minutes after the start of the first process
				if len(runs) != c.runs {
					t.Errorf("%d runs, want %d", len(runs), c.runs)
				}
			})
		})
	}
}
