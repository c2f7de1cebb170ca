// Outbox tells another system what happened in the database, in order. A shop
// writes each order together with a message, in one transaction. Relays in three
// processes want to send the messages; a lock lets one of them do it at a time, and
// the transaction that notes what is sent is guarded. The relay that works is
// killed with kill -9 or frozen for longer than its lease, again and again.
//
// The database is exact: what is noted as sent goes forward only, without gaps. The
// sending is not in the database: some messages are sent twice, and a relay that
// stood still sends with an old token. The receiver sees both, by the message's
// number and by the token, and lets nothing of it through.
//
//	go run ./outbox [-backend mysql|mariadb] [-strategy unique|version|for-update] [-short]
package main

import (
	"flag"
	"fmt"
	"time"

	"github.com/rowlock/rowlock/examples/internal/fleet"
	"github.com/rowlock/rowlock/examples/internal/program"
	"github.com/rowlock/rowlock/examples/internal/servers"
	mysqllock "github.com/rowlock/rowlock/mysql"
)

const roleRelay = "relay"

func main() {
	fleet.Run(map[string]fleet.Role{roleRelay: playRelay})
	program.Main("outbox", parse, (*demo).run)
}

// demo is what to do.
type demo struct {
	Server   servers.Server
	Strategy mysqllock.Strategy
	Orders   int
	Relays   int
	Kills    int
	Freezes  int
	TTL      time.Duration
}

// freeze is how long a relay stands still: until its lease is over and another
// relay has worked for a while.
func (d *demo) freeze() time.Duration { return d.TTL + time.Second }

func parse(args []string) (*demo, error) {
	d := &demo{Orders: 6000, Relays: 3, Kills: 4, Freezes: 4, TTL: 2 * time.Second}
	f := flag.NewFlagSet("outbox", flag.ContinueOnError)
	backend := f.String("backend", string(servers.MySQL), "where the shop is: mysql or mariadb")
	strategy := f.String("strategy", d.Strategy.String(), "how the lock is kept: unique, version or for-update")
	short := f.Bool("short", false, "1200 orders, 2 kills, 2 freezes, a TTL of 1s")
	_, err := program.Flags(f, args)
	if err != nil {
		return nil, err
	}
	if *short {
		d.Orders, d.Kills, d.Freezes, d.TTL = 1200, 2, 2, time.Second
	}
	if d.Strategy, err = mysqllock.ParseStrategy(*strategy); err != nil {
		return nil, fmt.Errorf("-strategy: %w", err)
	}
	d.Server, err = servers.Backend(*backend, servers.MySQL, servers.MariaDB)
	return d, err
}
