package cronlock_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/robfig/cron/v3"

	"github.com/rowlock/rowlock"
	cronlock "github.com/rowlock/rowlock/adapters/cron"
	"github.com/rowlock/rowlock/memory"
)

// TestPhase: two programs, the second of which starts two minutes after the first, share a job that is due each five
// minutes. What README.md says of times of day, of @every and of a longer MinHold is so.
func TestPhase(t *testing.T) {
	const five = 5 * time.Minute
	for _, c := range []struct {
		name, spec string
		opts       []rowlock.Option
		runs       int
	}{
		{"times of day", "*/5 * * * *", nil, 12},
		{"from each start", "@every 5m", nil, 12 + 11},
		{"from each start, kept", "@every 5m", []rowlock.Option{rowlock.MinHold(five - 10*time.Second)}, 12},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store, runs := memory.New(), make(chan struct{}, 100)
				for range 2 {
					locks, err := rowlock.New(store, rowlock.Options{ReapInterval: -1})
					must(t, err)
					defer func() { must(t, locks.Close(t.Context())) }()
					scheduler := cron.New()
					_, err = scheduler.AddJob(c.spec, cronlock.Job(&logger{}, locks, "job", func(context.Context, *rowlock.Lease) error {
						runs <- struct{}{}
						return nil
					}, append([]rowlock.Option{cronlock.Period(five)}, c.opts...)...))
					must(t, err)
					scheduler.Start()
					defer func() { <-scheduler.Stop().Done() }()
					time.Sleep(2 * time.Minute)
				}
				time.Sleep(57 * time.Minute) // 61 minutes after the start of the first program
				if len(runs) != c.runs {
					t.Errorf("%d runs, want %d", len(runs), c.runs)
				}
			})
		})
	}
}
