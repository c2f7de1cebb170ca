// Rw reads a price list from sixteen goroutines in four programs, over and over, while another
// program writes it anew every now and then: all articles, in many small transactions. Who reads
// in between would have prices of two lists.
//
// It is done three times: without a lock, with one lock for all, and with a read lock for the
// readers (Shared). It prints what each way costs both sides.
//
//	go run ./rw [-backend mysql|mariadb] [-strategy version|unique|for-update] [-short]
package main

import (
	"flag"
	"time"

	"github.com/rowlock/rowlock/examples/internal/fleet"
	"github.com/rowlock/rowlock/examples/internal/program"
	"github.com/rowlock/rowlock/examples/internal/servers"
	mysqllock "github.com/rowlock/rowlock/mysql"
)

const (
	roleReaders = "readers"
	roleWriter  = "writer"
)

func main() {
	fleet.Run(map[string]fleet.Role{roleReaders: playReaders, roleWriter: playWriter})
	program.Main("rw", parse, (*plan).run)
}

// plan is what is done, three times.
type plan struct {
	Backend  servers.Server
	Strategy mysqllock.Strategy
	Programs int           // with readers
	Readers  int           // goroutines in each
	Span     time.Duration // how long it goes on
	Night    time.Duration // the time between two lists
	Pages    int           // of the list
	Page     int           // articles on each
	Pause    time.Duration // between two pages, of readers and the writer: what they do with one
}

func parse(args []string) (*plan, error) {
	p := &plan{Programs: 4, Readers: 4, Span: 6 * time.Second, Night: time.Second, Pages: 10, Page: 20, Pause: 2 * time.Millisecond}
	f := flag.NewFlagSet("rw", flag.ContinueOnError)
	backend := f.String("backend", string(servers.MySQL), "where the list and the locks are: mysql or mariadb")
	strategy := f.String("strategy", mysqllock.VersionColumn.String(), "how the locks are kept: version, unique or for-update")
	short := f.Bool("short", false, "each way for 2s, and a new list in 300ms")
	if _, err := program.Flags(f, args); err != nil {
		return nil, err
	}
	if *short {
		p.Span, p.Night = 2*time.Second, 300*time.Millisecond
	}
	var err error
	if p.Strategy, err = mysqllock.ParseStrategy(*strategy); err != nil {
		return nil, err
	}
	p.Backend, err = servers.Backend(*backend, servers.MySQL, servers.MariaDB)
	return p, err
}
