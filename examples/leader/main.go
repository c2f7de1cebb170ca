// Leader elects one of three processes: it kills the leader, freezes the next one until a third
// leads, and lets it go on. It prints the table of terms, and what became of the write that the
// frozen leader had begun.
//
// Every process calls rowlock.Lead with a function that works until its context ends. The
// parent follows the leader with Client.Observe.
//
//	go run ./leader [-backend mysql|mariadb] [-short]
package main

import (
	"flag"
	"time"

	"github.com/rowlock/rowlock/examples/internal/fleet"
	"github.com/rowlock/rowlock/examples/internal/program"
	"github.com/rowlock/rowlock/examples/internal/servers"
)

const roleCandidate = "candidate"

func main() {
	fleet.Run(map[string]fleet.Role{roleCandidate: playCandidate})
	program.Main("leader", parse, (*story).run)
}

// story is what the flags say.
type story struct {
	Backend servers.Server
	TTL     time.Duration
}

func parse(args []string) (*story, error) {
	s := &story{TTL: 5 * time.Second}
	f := flag.NewFlagSet("leader", flag.ContinueOnError)
	backend := f.String("backend", string(servers.MySQL), "where the lock is: mysql or mariadb")
	short := f.Bool("short", false, "a TTL of 1.5s instead of 5s")
	if _, err := program.Flags(f, args); err != nil {
		return nil, err
	}
	if *short {
		s.TTL = 1500 * time.Millisecond
	}
	var err error
	s.Backend, err = servers.Backend(*backend, servers.MySQL, servers.MariaDB)
	return s, err
}
