package mongolock

import (
	"context"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/rowlock/rowlock/mongo/internal/command"
	"github.com/rowlock/rowlock/mongo/internal/document"
)

// Cluster is what a Store's server says of the servers that it replicates with.
type Cluster struct {
	// Kind is "standalone", "single" (a replica set of one member), "replica set", or "sharded".
	Kind string

	// Promised says what holds after a failover.
	Promised string

	// Warnings name settings under which less holds, and what to set instead; none: nothing is seen that is wrong.
	Warnings []string
}

// Cluster asks the server what cluster it belongs to. It changes nothing, and refuses nothing: what cannot be used at
// all is an error of Check. Whether the members keep what a majority acknowledged on their disks is seen with the right to
// replSetGetConfig (role clusterMonitor) only; without it nothing is said of that. It may be called at any time, also before
// Migrate; its errors are those of the server, and ErrClosed.
func (s *Store) Cluster(ctx context.Context) (Cluster, error) {
	if err := s.open(ctx, "cluster"); err != nil {
		return Cluster{}, err
	}
	hello, err := s.cmd.Read(ctx, document.Op("hello", 1))
	if err != nil {
		return Cluster{}, s.cmd.Fail(ctx, "cluster: reach the server", err)
	}
	var config bson.Raw
	if set, _ := hello.Lookup("setName").StringValueOK(); set != "" {
		reply, err := s.cmd.ReadAdmin(ctx, document.Op("replSetGetConfig", 1))
		if err != nil && !command.Hidden(err) {
			return Cluster{}, s.cmd.Fail(ctx, "cluster: ask for the configuration of the replica set", err)
		}
		if err == nil {
			config, _ = reply.Lookup("config").DocumentOK()
		}
	}
	return describe(hello, config), nil
}

// describe says what a server is by its hello, and the configuration of its replica set, which may be missing.
func describe(hello, config bson.Raw) (c Cluster) {
	const everything = "everything: what a majority acknowledged is kept"
	count := func(field string) int {
		list, _ := hello.Lookup(field).ArrayOK()
		values, _ := list.Values()
		return len(values)
	}
	set, _ := hello.Lookup("setName").StringValueOK()
	msg, _ := hello.Lookup("msg").StringValueOK()
	data, arbiters := count("hosts")+count("passives"), count("arbiters")
	switch {
	case msg == "isdbgrid":
		c.Kind, c.Promised = "sharded", everything
	case set == "":
		c.Kind, c.Promised = "standalone", "nothing after a restart: no majority, no transactions, no guard"
	case data < 2:
		c.Kind, c.Promised = "single", "everything, after a restart"
	default:
		c.Kind, c.Promised = "replica set", everything
	}
	if arbiters > 0 && data < 3 {
		c.Warnings = append(c.Warnings, fmt.Sprintf("%d members with data and %d arbiters: while one member with data is down no write is acknowledged by a majority, and no lock can be had or renewed: use three members with data", data, arbiters))
	}
	if journaled, ok := config.Lookup("writeConcernMajorityJournalDefault").BooleanOK(); ok && !journaled {
		c.Warnings = append(c.Warnings, "writeConcernMajorityJournalDefault is false: a write counts as acknowledged before it is on a disk, so what a majority acknowledged is forgotten if a majority loses power: set it to true (rs.reconfig)")
	}
	return c
}
