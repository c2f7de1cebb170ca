package cluster

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"
	"strings"

	"github.com/rowlock/rowlock/mysql/internal/conn"
)

// Kind is how a server replicates, as far as it says so.
type Kind uint8

const (
	Single   Kind = iota // alone, or with asynchronous replicas
	SemiSync             // a commit waits until replicas have it
	Group                // Group Replication
	Galera
)

// View is what one server says.
type View struct {
	Version  string
	Server   string // which it is: hostname:port:server_id
	ID       string // server_uuid; empty on MariaDB
	ReadOnly string // the variable by which it is; empty: it takes writes
	Kind     Kind

	Variables map[string]string // those that Look asks for and the server has, by their names in small letters

	Members  []Member // of its group
	NoAccess error    // the user may not see them
	NotReady string   // a node of Galera, or a member of a group, that cannot serve, and why
	Replicas int      // that follow semi-synchronously; of a primary
}

// Member is one of a group, as the server sees it.
type Member struct{ ID, State, Role string }

// Querier runs a statement and calls scan for each row of the answer.
type Querier func(ctx context.Context, query string, scan func(*sql.Rows) error) error

// variables are those that tell clusters apart, and how safe they are.
var variables = []string{
	"group_replication_autorejoin_tries", "group_replication_consistency", "group_replication_group_name",
	"group_replication_single_primary_mode", "group_replication_unreachable_majority_timeout",
	"rpl_semi_sync_master_enabled", "rpl_semi_sync_master_timeout", "rpl_semi_sync_master_wait_no_slave", "rpl_semi_sync_master_wait_point",
	"rpl_semi_sync_source_enabled", "rpl_semi_sync_source_timeout", "rpl_semi_sync_source_wait_no_replica", "rpl_semi_sync_source_wait_point",
	"wsrep_on", "wsrep_provider",
}

var status = []string{"rpl_semi_sync_master_clients", "rpl_semi_sync_source_clients", "wsrep_cluster_status", "wsrep_local_state_comment", "wsrep_ready"}

const (
	membersQuery  = "SELECT MEMBER_ID,MEMBER_STATE,MEMBER_ROLE FROM performance_schema.replication_group_members"
	identityQuery = "SELECT VERSION()," + conn.ServerName + ",COALESCE(/*!80000 @@server_uuid, */ NULL),@@GLOBAL.read_only,@@GLOBAL.innodb_read_only,COALESCE(/*!80000 @@GLOBAL.super_read_only, */ 0)"
)

// readOnlyVariables are in the order of identityQuery.
var readOnlyVariables = [...]string{"read_only", "innodb_read_only", "super_read_only"}

// Look asks a server what it is. SHOW needs no privilege, and a node of Galera answers it that answers nothing else.
func Look(ctx context.Context, ask Querier) (v View, err error) {
	if v.Variables, err = show(ctx, ask, "VARIABLES", variables); err != nil {
		return v, err
	}
	values, err := show(ctx, ask, "STATUS", status)
	if err != nil {
		return v, err
	}
	v.classify(values)
	var flags [len(readOnlyVariables)]string
	if v.NotReady == "" {
		err := ask(ctx, identityQuery, func(rows *sql.Rows) error {
			var id sql.NullString // NULL on MariaDB
			err := rows.Scan(&v.Version, &v.Server, &id, &flags[0], &flags[1], &flags[2])
			v.ID = id.String
			return err
		})
		if err != nil {
			return v, err
		}
	}
	for i, value := range flags {
		if v.ReadOnly == "" && conn.IsOn(value) {
			v.ReadOnly = readOnlyVariables[i]
		}
	}
	if v.Kind != Group {
		return v, nil
	}
	err = ask(ctx, membersQuery, func(rows *sql.Rows) error {
		var m Member
		var role sql.NullString
		err := rows.Scan(&m.ID, &m.State, &role)
		m.Role = role.String
		v.Members = append(v.Members, m)
		return err
	})
	if conn.Number(err) == conn.ErTableDenied {
		v.NoAccess = fmt.Errorf("grant SELECT ON performance_schema.replication_group_members: %w", err)
		return v, nil
	}
	v.place()
	return v, err
}

// KindOf is what the variables alone say.
func KindOf(variables map[string]string) Kind {
	v := View{Variables: variables}
	v.classify(nil)
	return v.Kind
}

// show asks for variables or states by name.
func show(ctx context.Context, ask Querier, what string, names []string) (map[string]string, error) {
	found := make(map[string]string)
	err := ask(ctx, "SHOW GLOBAL "+what+" WHERE Variable_name IN ('"+strings.Join(names, "','")+"')", func(rows *sql.Rows) error {
		var name string
		var value sql.NullString
		err := rows.Scan(&name, &value)
		found[strings.ToLower(name)] = value.String
		return err
	})
	return found, err
}

// classify says what kind of cluster the server belongs to.
func (v *View) classify(status map[string]string) {
	switch {
	case conn.IsOn(v.Variables["wsrep_on"]) && v.Variables["wsrep_provider"] != "" && !strings.EqualFold(v.Variables["wsrep_provider"], "none"):
		v.Kind = Galera
		if s := status["wsrep_cluster_status"] + " " + status["wsrep_local_state_comment"] + " " + status["wsrep_ready"]; !strings.EqualFold(s, "Primary Synced ON") {
			v.NotReady = "the node is " + s + ", not Primary Synced ON"
		}
	case v.Variables["group_replication_group_name"] != "":
		v.Kind = Group
	case conn.IsOn(v.Variables["rpl_semi_sync_source_enabled"]), conn.IsOn(v.Variables["rpl_semi_sync_master_enabled"]):
		v.Kind = SemiSync
		for _, name := range []string{"rpl_semi_sync_source_clients", "rpl_semi_sync_master_clients"} {
			n, _ := strconv.Atoi(status[name])
			v.Replicas = max(v.Replicas, n)
		}
	}
}

// place says whether a member of a group can serve: it takes part, and sees most of the others do so.
func (v *View) place() {
	online, own := 0, Member{State: "OFFLINE"}
	for _, m := range v.Members {
		if m.State == "ONLINE" {
			online++
		}
		if m.ID == v.ID {
			own = m
		}
	}
	switch {
	case own.State != "ONLINE":
		v.NotReady = "it is " + own.State + " in its group"
	case 2*online <= len(v.Members):
		v.NotReady = fmt.Sprintf("it sees %d of %d members of its group, which is no majority", online, len(v.Members))
	case own.Role != "PRIMARY":
		v.NotReady = "it is " + own.Role + " in its group"
	}
}

// primaries are the members that the server names.
func (v *View) primaries() (ids []string) {
	for _, m := range v.Members {
		if m.State == "ONLINE" && m.Role == "PRIMARY" {
			ids = append(ids, m.ID)
		}
	}
	return ids
}

// ReplicasQuery counts those that receive the server's binary log now. It shows other users' sessions with the privilege
// PROCESS only.
const ReplicasQuery = "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE COMMAND LIKE 'Binlog Dump%'"
