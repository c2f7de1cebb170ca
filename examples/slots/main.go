// Slots calls a slow partner from twenty processes, at most five calls at a time: the partner
// refuses a sixth, and a second one with a number that is in use. One process is killed in the
// middle of a call; its place is used again when its lease has ended.
//
// Every process takes one of five places with Acquire and Slots(5). Lease.Slot is the number of
// the place, which no other process has meanwhile: here the partner knows the caller by it.
//
//	go run ./slots [-backend mysql|mariadb|mongo] [-short]
package main

import (
	"flag"
	"time"

	"github.com/rowlock/rowlock/examples/internal/fleet"
	"github.com/rowlock/rowlock/examples/internal/program"
	"github.com/rowlock/rowlock/examples/internal/servers"
)

const roleCaller = "caller"

func main() {
	fleet.Run(map[string]fleet.Role{roleCaller: playCaller})
	program.Main("slots", parse, (*plan).run)
}

// plan is what the flags say.
type plan struct {
	Backend servers.Server
	Callers int // processes
	Places  int
	Calls   int           // of all, before and again after one is killed
	Call    time.Duration // how long the partner takes
	TTL     time.Duration
}

func parse(args []string) (*plan, error) {
	p := &plan{Callers: 20, Places: 5, Calls: 200, Call: 50 * time.Millisecond, TTL: 3 * time.Second}
	f := flag.NewFlagSet("slots", flag.ContinueOnError)
	backend := f.String("backend", string(servers.MySQL), "where the locks are: mysql, mariadb or mongo")
	short := f.Bool("short", false, "50 calls before the kill and 50 after it instead of 200, a TTL of 1.5s")
	if _, err := program.Flags(f, args); err != nil {
		return nil, err
	}
	if *short {
		p.Calls, p.TTL = 50, 1500*time.Millisecond
	}
	var err error
	p.Backend, err = servers.Backend(*backend, servers.MySQL, servers.MariaDB, servers.MongoDB)
	return p, err
}
