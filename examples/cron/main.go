// Cron runs a job once a period, over five processes that know nothing of each other: what a
// service with five pods needs that has no scheduler.
//
// Every process calls rowlock.Every. One of them runs the job; the key stays taken, by the
// database's clock, until the period is over, and then they race for the next run. Halfway the
// process that runs the job is killed in the middle of it: another takes the next period.
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

// schedule is the plan.
type schedule struct {
	Backend servers.Server
	Pods    int
	Runs    int
	Period  time.Duration
	Job     time.Duration // how long the job takes
}

func parse(args []string) (*schedule, error) {
	s := &schedule{Pods: 5, Runs: 20, Period: 3 * time.Second, Job: 50 * time.Millisecond}
	f := flag.NewFlagSet("cron", flag.ContinueOnError)
	backend := f.String("backend", string(servers.MySQL), "where the lock is: mysql, mariadb or mongo")
	short := f.Bool("short", false, "10 runs, one in 1.5s")
	f.DurationVar(&s.Job, "job", s.Job, "how long the job takes; try more than the period")
	if _, err := program.Flags(f, args); err != nil {
		return nil, err
	}
	if *short {
		s.Runs, s.Period = 10, 1500*time.Millisecond
	}
	var err error
	s.Backend, err = servers.Backend(*backend, servers.MySQL, servers.MariaDB, servers.MongoDB)
	return s, err
}
