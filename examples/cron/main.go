// Cron runs a job once a tick, over five processes whose clocks disagree: what a
// service with five pods needs that has no scheduler but its own.
//
// Every process has a ticker and calls rowlock.Do with NoWait and MinHold at each
// tick. The first one runs the job; MinHold keeps the key taken, by the database's
// clock, until the slowest clock has ticked too. Halfway the process that was
// always first is killed: the next one takes its place.
//
//	go run ./cron [-backend mysql|mongo] [-short]
package main

import (
	"flag"
	"time"

	"github.com/rowlock/rowlock/examples/internal/fleet"
	"github.com/rowlock/rowlock/examples/internal/program"
	"github.com/rowlock/rowlock/examples/internal/servers"
)

const rolePod = "pod"

func main() {
	fleet.Run(map[string]fleet.Role{rolePod: playPod})
	program.Main("cron", parse, (*schedule).run)
}

// schedule is the plan. Skew < MinHold < Period is what makes it work: the key
// must stay taken until the slowest clock has ticked, and be free again when the
// fastest one ticks next.
type schedule struct {
	Backend servers.Server
	Pods    int
	Ticks   int
	Period  time.Duration
	Skew    time.Duration // between the fastest clock and the slowest
	MinHold time.Duration
	Job     time.Duration // how long the job takes
}

func parse(args []string) (*schedule, error) {
	s := &schedule{Pods: 5, Ticks: 20, Period: 3500 * time.Millisecond, Skew: 2 * time.Second, MinHold: 2750 * time.Millisecond, Job: 50 * time.Millisecond}
	var short bool
	f := flag.NewFlagSet("cron", flag.ContinueOnError)
	backend := f.String("backend", string(servers.MySQL), "where the lock is: mysql, mariadb or mongo")
	f.BoolVar(&short, "short", false, "10 ticks of 2s, clocks up to 0.8s apart")
	f.DurationVar(&s.MinHold, "minhold", s.MinHold, "how long the key stays taken; try `0`")
	given, err := program.Flags(f, args)
	if err != nil {
		return nil, err
	}
	if short {
		s.Ticks, s.Period, s.Skew = 10, 2*time.Second, 800*time.Millisecond
		if !given["minhold"] {
			s.MinHold = 1400 * time.Millisecond
		}
	}
	s.Backend, err = servers.Backend(*backend, servers.MySQL, servers.MariaDB, servers.MongoDB)
	return s, err
}
