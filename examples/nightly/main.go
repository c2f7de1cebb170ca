// Nightly is a batch job that must take effect exactly once: a bank posts the
// night's interest to 10 000 accounts, in chunks of 50. Three processes have a
// scheduler each, one of them works, and while it does it is killed with kill -9 or
// frozen for longer than its lease, again and again. At the end every account has
// its interest exactly once, because each chunk was a run of Once.
//
// With -without the same job runs with a lock and transactions, but without the
// guard: a process that stood still finishes its transaction after another one took
// over.
//
//	go run ./nightly [-backend mysql|mariadb] [-strategies unique,version,for-update] [-without] [-page address] [-short]
package main

import (
	"flag"
	"fmt"
	"strings"
	"time"

	"github.com/rowlock/rowlock/examples/internal/fleet"
	"github.com/rowlock/rowlock/examples/internal/program"
	"github.com/rowlock/rowlock/examples/internal/servers"
	mysqllock "github.com/rowlock/rowlock/mysql"
)

const rolePod = "pod"

func main() {
	fleet.Run(map[string]fleet.Role{rolePod: playPod})
	program.Main("nightly", parse, (*demo).run)
}

// demo is what to do.
type demo struct {
	Server     servers.Server
	Strategies []mysqllock.Strategy
	Without    bool
	Accounts   int
	Chunk      int // accounts in a chunk
	Pods       int
	Kills      int
	Freezes    int
	TTL        time.Duration
	Page       string // where the page is that shows who has the lock
}

// freeze is how long a pod stands still: until its lease is over and another pod
// has had a tick.
func (d *demo) freeze() time.Duration { return d.TTL + 1500*time.Millisecond }

func parse(args []string) (*demo, error) {
	d := &demo{Accounts: 10_000, Chunk: 50, Pods: 3, Kills: 5, Freezes: 3, TTL: 2 * time.Second}
	f := flag.NewFlagSet("nightly", flag.ContinueOnError)
	backend := f.String("backend", string(servers.MySQL), "where the bank is: mysql or mariadb")
	strategies := f.String("strategies", mysqllock.VersionColumn.String(), "how the lock is kept: `names` of unique, version and for-update with commas between; one night each")
	f.BoolVar(&d.Without, "without", false, "no guard and no Once: a lock and transactions only")
	short := f.Bool("short", false, "2000 accounts, 2 kills, 2 freezes, a TTL of 1s; other flags win")
	f.IntVar(&d.Kills, "kills", d.Kills, "how often a pod is killed")
	f.IntVar(&d.Freezes, "freezes", d.Freezes, "how often a pod is frozen")
	f.StringVar(&d.Page, "page", "127.0.0.1:0", "the `address` of the page that shows who has the lock, of this machine; port 0: any free one")
	given, err := program.Flags(f, args)
	if err != nil {
		return nil, err
	}
	if *short {
		d.Accounts, d.Chunk, d.TTL = 2000, 25, time.Second
		if !given["kills"] {
			d.Kills = 2
		}
		if !given["freezes"] {
			d.Freezes = 2
		}
	}
	if d.Kills < 0 || d.Freezes < 0 || d.Kills+d.Freezes > d.Accounts/d.Chunk {
		return nil, fmt.Errorf("-kills %d -freezes %d: there are %d chunks, each can be hit once", d.Kills, d.Freezes, d.Accounts/d.Chunk)
	}
	for _, s := range strings.Split(*strategies, ",") {
		strategy, err := mysqllock.ParseStrategy(s)
		if err != nil {
			return nil, fmt.Errorf("-strategies: %w", err)
		}
		d.Strategies = append(d.Strategies, strategy)
	}
	d.Server, err = servers.Backend(*backend, servers.MySQL, servers.MariaDB)
	return d, err
}
