// Transfer moves money between accounts, from eight goroutines in two programs. Each transfer
// needs the locks of two accounts. Taken one by one, in the order in which the transfer names
// them, they deadlock; AcquireAll takes both or none.
//
//	go run ./transfer [-backend mysql|mariadb] [-strategy version|unique|for-update] [-short]
package main

import (
	"flag"
	"time"

	"github.com/rowlock/rowlock/examples/internal/fleet"
	"github.com/rowlock/rowlock/examples/internal/program"
	"github.com/rowlock/rowlock/examples/internal/servers"
	mysqllock "github.com/rowlock/rowlock/mysql"
)

const roleTeller = "teller"

func main() {
	fleet.Run(map[string]fleet.Role{roleTeller: playTellers})
	program.Main("transfer", parse, (*plan).run)
}

// plan is what is done, twice: with the locks taken one by one, and all at once.
type plan struct {
	Backend   servers.Server
	Strategy  mysqllock.Strategy
	Programs  int
	Tellers   int // goroutines in each
	Transfers int // of each
	Accounts  int
	Start     int           // what each account has at the beginning
	Patience  time.Duration // after which a transfer is given up, where the locks are taken one by one
}

func parse(args []string) (*plan, error) {
	p := &plan{Programs: 2, Tellers: 4, Transfers: 40, Accounts: 4, Start: 1000, Patience: 3 * time.Second}
	f := flag.NewFlagSet("transfer", flag.ContinueOnError)
	backend := f.String("backend", string(servers.MySQL), "where the accounts and locks are: mysql or mariadb")
	strategy := f.String("strategy", mysqllock.VersionColumn.String(), "how the locks are kept: version, unique or for-update")
	short := f.Bool("short", false, "10 transfers of each goroutine, given up after 1s")
	if _, err := program.Flags(f, args); err != nil {
		return nil, err
	}
	if *short {
		p.Transfers, p.Patience = 10, time.Second
	}
	var err error
	if p.Strategy, err = mysqllock.ParseStrategy(*strategy); err != nil {
		return nil, err
	}
	p.Backend, err = servers.Backend(*backend, servers.MySQL, servers.MariaDB)
	return p, err
}
