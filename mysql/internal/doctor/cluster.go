package doctor

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"time"

	"github.com/rowlock/rowlock/doctor"
	"github.com/rowlock/rowlock/mysql/internal/cluster"
	"github.com/rowlock/rowlock/mysql/internal/conn"
)

// GroupFailover is how long a group takes to name a new primary after one was lost.
const GroupFailover = 7 * time.Second

// cluster looks at what the server replicates with, as Store.Cluster does. serves: it answers questions.
func (e *Examination) cluster(ctx context.Context) (serves bool, err error) {
	const kind, replicas, ready = "RL140", "RL141", "RL149"
	view, err := cluster.Look(ctx, e.sessions[0].querier())
	if err != nil {
		return false, err
	}
	if view.NotReady != "" {
		e.add(ready, doctor.Fail, view.NotReady)
		if view.Kind == cluster.Galera {
			return false, nil
		}
	} else {
		e.add(ready, doctor.OK, "yes")
	}
	seen, err := e.countReplicas(ctx)
	if err != nil {
		return false, err
	}
	name, promised, risks := e.Describe(view, seen)
	e.replicas = max(seen, view.Replicas)
	e.add(kind, doctor.Info, name, "promised", promised)
	for _, r := range risks {
		e.add(r.ID, r.Severity, r.Seen, "variable", r.Variable)
	}
	found := func(id string) bool {
		return slices.ContainsFunc(risks, func(r Risk) bool { return r.ID == id })
	}
	if err := e.filters(ctx, view.Kind, e.replicas); err != nil {
		return false, err
	}
	good := map[cluster.Kind][]string{
		cluster.Group:    {"RL142", "RL146", "RL147"},
		cluster.SemiSync: {"RL144", "RL145"},
		cluster.Galera:   {"RL143"},
	}
	for _, id := range good[view.Kind] {
		if !found(id) {
			e.add(id, doctor.OK, "as it should be")
		}
	}
	if view.Kind == cluster.Single && seen == 0 && e.seesAll {
		e.add(replicas, doctor.OK, "none is seen")
	}
	if view.Kind == cluster.Group && e.o.Failover == 0 {
		e.failover = GroupFailover
	}
	if view.Kind != cluster.Group {
		err = e.replicates(ctx)
	}
	return true, err
}

// countReplicas counts those that receive the binary log now. Without PROCESS they are not seen, which is a finding.
func (e *Examination) countReplicas(ctx context.Context) (n int, err error) {
	if _, err := e.sessions[0].ask(ctx, "SELECT COUNT(*) FROM information_schema.INNODB_TRX WHERE 1=0"); err != nil { // needs it too
		return 0, e.refused("RL141", err)
	}
	e.seesAll = true
	rows, err := e.sessions[0].ask(ctx, cluster.ReplicasQuery)
	if err != nil {
		return 0, err
	}
	_, err = fmt.Sscan(rows[0][0], &n)
	return n, err
}

// replicates looks whether a server that takes writes follows another.
func (e *Examination) replicates(ctx context.Context) error {
	const id = "RL148"
	rows, err := e.sessions[0].ask(ctx, "SHOW REPLICA STATUS")
	switch {
	case conn.Number(err) != 0:
		return e.refused(id, err)
	case err != nil:
		return err
	case len(rows) > 0 && !conn.IsOn(e.settings["read_only"]):
		e.add(id, doctor.Warn, count(len(rows), "source"))
	default:
		e.add(id, doctor.OK, "no")
	}
	return nil
}

func (on *plainSession) querier() cluster.Querier {
	return func(ctx context.Context, query string, scan func(*sql.Rows) error) error {
		on.db.Statements.Add(1)
		_, err := conn.Collect(ctx, on, query, func(rows *sql.Rows) (struct{}, error) { return struct{}{}, scan(rows) })
		return err
	}
}
