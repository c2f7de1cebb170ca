// Fencedfiles shows what a lock alone cannot do, and what fencing tokens are for.
//
// Two writers, alice and bob, share a file on a file server; a lock in MySQL says
// whose turn it is. Alice looks at her lease, finds it good, and is frozen before
// her request leaves. Her lease ends, bob gets the lock and writes. Then alice goes
// on where she stood: her request arrives, late. The server compares the token that
// comes with each request (package fencing) and refuses hers.
//
//	go run ./fencedfiles [-fence=false] [-short]
package main

import (
	"flag"
	"time"

	"github.com/rowlock/rowlock/examples/internal/fleet"
	"github.com/rowlock/rowlock/examples/internal/program"
	"github.com/rowlock/rowlock/examples/internal/servers"
)

const roleWriter = "writer"

func main() {
	fleet.Run(map[string]fleet.Role{roleWriter: playWriter})
	program.Main("fencedfiles", parse, (*story).run)
}

// story is what the flags say.
type story struct {
	Fence bool
	TTL   time.Duration
}

func parse(args []string) (*story, error) {
	s := &story{TTL: 5 * time.Second}
	f := flag.NewFlagSet("fencedfiles", flag.ContinueOnError)
	f.BoolVar(&s.Fence, "fence", true, "the file server compares tokens; try `false`")
	short := f.Bool("short", false, "a TTL of 1s instead of 5s")
	if _, err := program.Flags(f, args); err != nil {
		return nil, err
	}
	if *short {
		s.TTL = time.Second
	}
	return s, servers.Need(servers.MySQL)
}
