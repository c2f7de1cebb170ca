package round

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/rowlock/rowlock/dev/testenv"
	"github.com/rowlock/rowlock/dev/verify/fault"
	"github.com/rowlock/rowlock/dev/verify/workload"
)

// Clients is how many client processes a round has.
const Clients = 3

// Lab is a server with all that a round needs of it. Rounds run in it one after the
// other.
type Lab struct {
	Env    *fault.Env
	Spaces []string

	direct *workload.Direct
}

// OpenLab starts a server. The caller must Close it.
func OpenLab(ctx context.Context, kind testenv.Kind, seed uint64) (l *Lab, err error) {
	env, err := fault.NewEnv(ctx, kind, Clients, seed)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", kind, err)
	}
	l = &Lab{Env: env, Spaces: workload.SpacesOf(env.DB != nil)}
	if l.direct, err = workload.OpenDirect(ctx, l.Spaces, env.Server.DSN()); err != nil {
		return nil, errors.Join(fmt.Errorf("prepare %s: %w", kind, err), env.Close())
	}
	env.Reap, env.Force = l.direct.Reap, l.direct.Force
	return l, nil
}

// Close ends the server.
func (l *Lab) Close() error {
	_ = l.direct.Close() // its connections may be broken
	return l.Env.Close()
}

// Server is its product and version.
func (l *Lab) Server() string {
	version, _, _ := strings.Cut(l.Env.Server.Version(), "-")
	switch l.Env.Kind {
	case testenv.Mongo3:
		return "MongoDB " + version + ", three nodes"
	case testenv.Mongo:
		return "MongoDB " + version
	case testenv.MariaDB:
		return "MariaDB " + version
	case testenv.MariaDBGalera3:
		return "MariaDB " + version + ", Galera of three nodes"
	case testenv.MySQLSemiSync:
		return "MySQL " + version + ", semi-synchronous, three servers"
	case testenv.MySQLGroup3:
		return "MySQL " + version + ", Group Replication of three"
	case testenv.MySQLAsync:
		return "MySQL " + version + ", asynchronous, two servers"
	}
	return "MySQL " + version
}

// tables are those of a space, the one that holds the locks first.
var tables = map[string][]string{
	workload.Version:   {"rowlock_version", "rowlock_share"},
	workload.Unique:    {"rowlock_unique", "rowlock_share_unique"},
	workload.ForUpdate: {"rowlock_session", "rowlock_session_row", "rowlock_share_session"},
	workload.Mongo:     {workload.MongoCollection, workload.MongoCollection + "_fence"},
}

// ready sets the Env up for a round.
func (l *Lab) ready(keys []string, ttl time.Duration, clients func() []fault.Client) {
	l.Env.Spaces = nil
	for _, space := range l.Spaces {
		l.Env.Spaces = append(l.Env.Spaces, fault.Space{Name: space, Tables: tables[space], Keys: keys})
	}
	l.Env.TTL, l.Env.Clients = ttl, clients
}

// otherSlot is that of the client whom another build plays.
const otherSlot = 1

// task is what the client in a slot does, but for its name.
func (l *Lab) task(slot int, c Config, folder, prefix string) workload.Task {
	proxy := l.Env.Proxies[slot]
	program := ""
	if slot == otherSlot {
		program = c.Other
	}
	address := proxy.DSN()
	if leaves(l.Env.Kind) && slot%2 == 1 && program == "" { // an older build knows no Pool: its transactions would stay at the primary before
		address = proxy.LeavingDSN()
	}
	return workload.Task{
		Program: program,
		Folder:  folder, Spaces: l.Spaces, Address: address, Pool: proxy.DSN(), Through: proxy.Addrs(),
		Round: prefix, Seed: c.Seed, TTL: c.TTL, Hot: c.Hot, Light: c.Light, Modes: c.Modes, Break: c.Break,
	}
}

// leaves reports whether some clients of a kind of cluster take locks by an address that leaves connections to the primary
// before open. Of Galera that would make two writers.
func leaves(kind testenv.Kind) bool { return kind.Clustered() && kind != testenv.MariaDBGalera3 }
