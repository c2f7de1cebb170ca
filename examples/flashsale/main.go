// Flashsale sells 500 items to 2000 buyers in four processes, through a shop that
// is naive on purpose: it reads the stock and writes one less. Without a lock it
// sells far more than it has. With rowlock.Do around the same code it sells each
// item exactly once, whichever strategy keeps the lock.
//
// Then it kills holders with kill -9 and measures how long their locks outlive them.
// Last it freezes holders until another has had the lock, and lets them commit.
//
// Run it with `make demo` in the repository's root, which starts the servers.
package main

import (
	"flag"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rowlock/rowlock/examples/internal/fleet"
	"github.com/rowlock/rowlock/examples/internal/program"
	"github.com/rowlock/rowlock/examples/internal/servers"
)

// What a copy of this program can be.
const (
	roleBuyers = "buyers"
	roleHolder = "holder"
	roleWaiter = "waiter"
	rolePricer = "pricer"
)

func main() {
	fleet.Run(map[string]fleet.Role{roleBuyers: playBuyers, roleHolder: playHolder, roleWaiter: playWaiter, rolePricer: playPricer})
	program.Main("flashsale", parse, (*demo).run)
}

// demo says what to run.
type demo struct {
	Buyers, Items, Processes int
	Strategies               []string
	MariaDB                  bool
	TTL                      time.Duration // of the holders that are killed
	Trials                   int
	JSON                     string
}

func parse(args []string) (*demo, error) {
	all := []string{unlocked, unique, version, forUpdate, findAndModify}
	d := &demo{TTL: 2 * time.Second, Trials: 5}
	var strategies string
	var short bool
	f := flag.NewFlagSet("flashsale", flag.ContinueOnError)
	f.IntVar(&d.Buyers, "buyers", 2000, "how many `buyers`, over all processes")
	f.IntVar(&d.Items, "items", 500, "how many `items` are in stock")
	f.IntVar(&d.Processes, "processes", 4, "how many `processes` the buyers are in")
	f.StringVar(&strategies, "strategies", strings.Join(all, ","), "what to run: `names` with commas between; none is the sale without a lock")
	f.BoolVar(&d.MariaDB, "mariadb", false, "run what is for MySQL on MariaDB too")
	f.BoolVar(&short, "short", false, "small numbers: 200 buyers, 50 items, 2 kills at a TTL of 1s; other flags win")
	f.StringVar(&d.JSON, "json", "", "write the result to this `file` too")
	given, err := program.Flags(f, args)
	if err != nil {
		return nil, err
	}
	if short {
		d.TTL, d.Trials = time.Second, 2
		if !given["buyers"] {
			d.Buyers = 200
		}
		if !given["items"] {
			d.Items = 50
		}
	}
	chosen := strings.Split(strategies, ",")
	for _, s := range chosen {
		if !slices.Contains(all, s) {
			return nil, fmt.Errorf("-strategies: %q is not one of %s", s, strings.Join(all, ", "))
		}
	}
	for _, s := range all { // in this order, each once
		if slices.Contains(chosen, s) {
			d.Strategies = append(d.Strategies, s)
		}
	}
	if d.Items < 1 || d.Buyers < d.Items || d.Processes < 1 || d.Processes > d.Buyers {
		return nil, fmt.Errorf("-items %d -buyers %d -processes %d: there must be an item, a buyer for each item, and a buyer in each process", d.Items, d.Buyers, d.Processes)
	}
	return d, servers.Need(d.servers()...)
}

// servers are those that the strategies run on; a sale without a lock alone runs
// on all.
func (d *demo) servers() (list []servers.Server) {
	onMongo := slices.Contains(d.Strategies, findAndModify)
	onMySQL := slices.ContainsFunc(d.Strategies, onSQL)
	if !onMySQL && !onMongo {
		onMySQL, onMongo = true, true
	}
	if onMySQL {
		list = append(list, servers.MySQL)
	}
	if onMySQL && d.MariaDB {
		list = append(list, servers.MariaDB)
	}
	if onMongo {
		list = append(list, servers.MongoDB)
	}
	return list
}

// onSQL reports whether a strategy is one of MySQL's and MariaDB's.
func onSQL(strategy string) bool {
	return strategy == unique || strategy == version || strategy == forUpdate
}
