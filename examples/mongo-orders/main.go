// Mongo-orders fulfils orders in MongoDB: each takes units out of a product's stock
// and writes a line in the ledger, in one transaction. Workers in three processes
// share the products: one works on a product at a time. They are killed with
// kill -9 or frozen for longer than their leases, again and again, and a tenth of
// the orders comes twice, as from any queue. At the end every order is in the
// ledger exactly once, and the ledger and the stock agree to the unit.
//
//	go run ./mongo-orders [-short]
package main

import (
	"flag"
	"time"

	"github.com/rowlock/rowlock/examples/internal/fleet"
	"github.com/rowlock/rowlock/examples/internal/program"
	"github.com/rowlock/rowlock/examples/internal/servers"
)

const roleWorker = "worker"

func main() {
	fleet.Run(map[string]fleet.Role{roleWorker: playWorker})
	program.Main("mongo-orders", parse, (*demo).run)
}

// demo is what to do.
type demo struct {
	Orders   int
	Products int
	Workers  int
	Kills    int
	Freezes  int
	TTL      time.Duration
}

// freeze is how long a worker stands still: until its leases are over and others
// have worked on its products for a while.
func (d *demo) freeze() time.Duration { return d.TTL + time.Second }

func parse(args []string) (*demo, error) {
	d := &demo{Orders: 3000, Products: 5, Workers: 3, Kills: 6, Freezes: 4, TTL: 2 * time.Second}
	f := flag.NewFlagSet("mongo-orders", flag.ContinueOnError)
	short := f.Bool("short", false, "500 orders, 3 kills, 2 freezes, a TTL of 1s")
	if _, err := program.Flags(f, args); err != nil {
		return nil, err
	}
	if *short {
		d.Orders, d.Kills, d.Freezes, d.TTL = 500, 3, 2, time.Second
	}
	return d, servers.Need(servers.MongoDB)
}
