package mysqllock

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"
	"strings"

	"github.com/rowlock/rowlock/doctor"
	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/mysql/internal/cluster"
	"github.com/rowlock/rowlock/mysql/internal/conn"
	look "github.com/rowlock/rowlock/mysql/internal/doctor"
)

// Cluster is what a Store's server says of the servers that it replicates with.
type Cluster struct {
	// Kind is "single" (no replica is seen), "asynchronous", "semi-synchronous", "group" (Group Replication) or
	// "galera".
	Kind string

	// Promised says what holds after a failover.
	Promised string

	// Warnings name settings under which less holds, and what to set instead; none: nothing is seen that is wrong.
	Warnings []string
}

// Cluster asks the server what cluster it belongs to. It changes nothing, and refuses nothing: what cannot be used at
// all is an error of Check. Replicas are seen with the privilege PROCESS only; without it a server with asynchronous ones is
// "single". It may be called at any time, also before Migrate; its errors are those of the connection.
func (s *Store) Cluster(ctx context.Context) (Cluster, error) {
	if s.closed.Load() {
		return Cluster{}, conn.ErrClosed()
	}
	return conn.Detached(ctx, s.db, "cluster", func(ctx context.Context) (c Cluster, err error) {
		err = s.db.Read(ctx, func(on *conn.Conn) error {
			var replicas int
			view, err := cluster.Look(ctx, querier(on))
			if err == nil {
				replicas, err = countReplicas(ctx, on)
			}
			c, _ = s.describe(view, replicas)
			return conn.NotSent("cluster", err)
		})
		return c, err
	})
}

func querier(on *conn.Conn) cluster.Querier {
	return func(ctx context.Context, query string, scan func(*sql.Rows) error) error {
		_, err := conn.Query(ctx, on, 0, query, func(rows *sql.Rows) (struct{}, error) { return struct{}{}, scan(rows) })
		return err
	}
}

// countReplicas counts those that receive the server's binary log now.
func countReplicas(ctx context.Context, on *conn.Conn) (n int, err error) {
	err = querier(on)(ctx, cluster.ReplicasQuery, func(rows *sql.Rows) error {
		return rows.Scan(&n)
	})
	return n, err
}

// oneWriter is what rests on row locks or on reads, and so on one server that takes writes.
const oneWriter = "guards, InTx, Once, MarkRun, LockTx, Shared, Slots and SelectForUpdate"

// endless is from when on, in milliseconds, a time-out counts as none: a day.
const endless = 24 * 3600 * 1000

// describe says what cluster a server belongs to, what holds there, and what is set wrongly.
func (s *Store) describe(v cluster.View, replicas int) (c Cluster, risks []look.Risk) {
	warn := func(id string, severity doctor.Severity, variable, seen, means string) {
		risks = append(risks, look.Risk{ID: id, Severity: severity, Seen: seen, Means: means, Variable: variable})
		c.Warnings = append(c.Warnings, seen+": "+means)
	}
	set := func(names ...string) (name, value string) {
		for _, name := range names {
			if value, there := v.Variables[name]; there {
				return name, value
			}
		}
		return "", ""
	}
	const everything = "everything: what was acknowledged is kept"
	switch v.Kind {
	case cluster.Group:
		c.Kind, c.Promised = "group", everything
		if severalPrimaries(v.Variables) {
			c.Promised = "VersionColumn and UniqueInsert, exclusively and without guards; " + oneWriter + " with one writable member only"
			severity := doctor.Warn
			if s.options.Strategy == SelectForUpdate {
				severity = doctor.Fail
			}
			warn("RL142", severity, "", "group_replication_single_primary_mode is OFF", "all members take writes, and row locks are local to each: "+oneWriter+" need one")
		}
		timeout, _ := strconv.Atoi(v.Variables["group_replication_unreachable_majority_timeout"])
		tries, _ := strconv.Atoi(v.Variables["group_replication_autorejoin_tries"])
		if timeout != 0 && tries != 0 {
			warn("RL147", doctor.Fail, "", fmt.Sprintf("group_replication_unreachable_majority_timeout is %d and group_replication_autorejoin_tries %d", timeout, tries),
				"members without a majority leave, and one that comes back can begin a group of its own, without commits that were acknowledged: set the former to 0")
		}
		if name, value := set("group_replication_consistency"); strings.EqualFold(value, "EVENTUAL") {
			warn("RL146", doctor.Fail, name, name+" is EVENTUAL", "a new primary answers before it has applied what the old one acknowledged: set BEFORE_ON_PRIMARY_FAILOVER")
		}
	case cluster.Galera:
		c.Kind = "galera"
		c.Promised = "VersionColumn and UniqueInsert, exclusively and without guards: everything, also with several writers; " + oneWriter + " need one writable node, and connections to the one before that are cut"
		const nodes = "all nodes of Galera take writes, and row locks are local to each"
		switch {
		case s.options.Strategy == SelectForUpdate && s.options.SingleWriter:
			warn("RL143", doctor.Warn, "", "SelectForUpdate", "row locks are local to a node: Options.SingleWriter says that only one takes writes")
		case s.options.Strategy == SelectForUpdate:
			warn("RL143", doctor.Fail, "", "SelectForUpdate without Options.SingleWriter", nodes+": it is refused; use VersionColumn")
		case s.options.SingleWriter:
			risks = append(risks, look.Risk{ID: "RL143", Severity: doctor.Info, Seen: "Options.SingleWriter is set", Means: "only one node takes writes, says the program"})
		default:
			warn("RL143", doctor.Warn, "", "Options.SingleWriter is not set", nodes+": "+oneWriter+" need one writable node, and connections to the one before that are cut. If that is so, set it")
		}
	case cluster.SemiSync:
		c.Kind, c.Promised = "semi-synchronous", everything+", if the replica that received most is promoted"
		if name, value := set("rpl_semi_sync_source_timeout", "rpl_semi_sync_master_timeout"); name != "" {
			if ms, err := strconv.ParseUint(value, 10, 64); err == nil && ms < endless {
				warn("RL144", doctor.Warn, name, fmt.Sprintf("%s is %s ms", name, value), "after that commits go on without an acknowledgement, and a failover forgets them: set 4294967295")
			}
		}
		if name, value := set("rpl_semi_sync_source_wait_point", "rpl_semi_sync_master_wait_point"); value != "" && !strings.EqualFold(value, "AFTER_SYNC") {
			warn("RL145", doctor.Fail, name, fmt.Sprintf("%s is %s", name, value), "others see a commit before a replica has it, and a failover takes it back: set AFTER_SYNC")
		}
		if name, value := set("rpl_semi_sync_source_wait_no_replica", "rpl_semi_sync_master_wait_no_slave"); name != "" && !conn.IsOn(value) {
			warn("RL145", doctor.Warn, name, name+" is OFF", "while too few replicas are connected commits do not wait for an acknowledgement, whatever the time-out, and a failover forgets them: set ON")
		}
	default:
		c.Kind, c.Promised = "single", "everything, after a restart with durable commits"
		if replicas > 0 {
			c.Kind, c.Promised = "asynchronous", "nothing that the new primary had not received: a key can be granted twice, and tokens go back"
			warn("RL141", doctor.Warn, "", fmt.Sprintf("%d replicas receive commits after they were acknowledged", replicas), "if one of them may be promoted, use semi-synchronous replication or Group Replication")
		}
	}
	return c, risks
}

func severalPrimaries(variables map[string]string) bool {
	return variables["group_replication_group_name"] != "" && strings.EqualFold(variables["group_replication_single_primary_mode"], "OFF")
}

// checkWriters refuses SelectForUpdate where several servers take writes: its row locks are local to one.
func (s *Store) checkWriters(ctx context.Context, c *conn.Conn) error {
	if s.options.Strategy != SelectForUpdate || s.options.SingleWriter {
		return nil
	}
	variables, err := s.db.Variables(ctx, c)
	switch {
	case err != nil:
		return err
	case cluster.KindOf(variables) == cluster.Galera:
		return fmt.Errorf("%w: the server is a node of Galera, whose nodes all take writes and do not know each other's row locks, so strategy for-update would grant a key twice: use VersionColumn, or set Options.SingleWriter if a proxy leads to one node only and cuts connections to the others", driver.ErrNotSupported)
	case severalPrimaries(variables):
		return fmt.Errorf("%w: the server is in a group of several primaries (group_replication_single_primary_mode is OFF), which do not know each other's row locks, so strategy for-update would grant a key twice: use VersionColumn, or set Options.SingleWriter if a proxy leads to one member only and cuts connections to the others", driver.ErrNotSupported)
	}
	return nil
}
