package doctor

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/rowlock/rowlock/doctor"
	"github.com/rowlock/rowlock/mysql/internal/conn"
	"github.com/rowlock/rowlock/mysql/internal/schema"
)

// strangers are products that speak the protocol, and say so in their version, but do not have InnoDB's row locks.
var strangers = []string{"tidb", "vitess", "planetscale", "singlestore", "oceanbase"}

// server looks at what the server is.
func (e *Examination) server() {
	version, comment := e.settings["version"], e.settings["version_comment"]
	is := strings.TrimSpace(version + " " + comment)
	e.report.Server = fmt.Sprintf("%s at %s:%s (server_id %s)", is, e.settings["hostname"], e.settings["port"], e.settings["server_id"])
	aurora := e.settings["aurora_version"]
	switch err := schema.Supported(version); {
	case err != nil, contains(strings.ToLower(is), strangers):
		e.add("RL101", doctor.Fail, is)
	case aurora != "":
		e.add("RL101", doctor.Info, is+", Aurora "+aurora)
	default:
		e.add("RL101", doctor.OK, is)
	}
}

// takesWrites looks whether the server, or the schema, is read-only.
func (e *Examination) takesWrites(ctx context.Context) error {
	e.writable = true
	for _, name := range []string{"read_only", "innodb_read_only", "super_read_only", "offline_mode"} {
		if conn.IsOn(e.settings[name]) {
			e.writable = false
			e.add("RL102", doctor.Fail, name+" is "+e.settings[name], "mend", "SET GLOBAL "+name+"=OFF")
		}
	}
	switch schema, err := e.readOnlySchema(ctx); {
	case err != nil:
		return err
	case schema != "":
		e.writable = false
		e.add("RL102", doctor.Fail, "schema "+schema+" is READ ONLY", "mend", "ALTER SCHEMA `"+schema+"` READ ONLY=0")
	}
	if name, value := e.set("transaction_read_only", "tx_read_only"); conn.IsOn(value) {
		e.add("RL102", doctor.Warn, name+" is "+value, "mend", "SET GLOBAL "+name+"=OFF")
	} else if e.writable {
		e.add("RL102", doctor.OK, "yes")
	}
	return nil
}

// readOnlySchema names the schema of the locks, if it is read-only, which MySQL knows since 8.0.22:
// https://dev.mysql.com/doc/refman/9.7/en/alter-database.html#alter-database-read-only
func (e *Examination) readOnlySchema(ctx context.Context) (string, error) {
	rows, err := e.sessions[0].ask(ctx, "SELECT SCHEMA_NAME FROM information_schema.SCHEMATA_EXTENSIONS WHERE SCHEMA_NAME=DATABASE() AND OPTIONS LIKE '%READ ONLY=1%'")
	switch {
	case conn.Number(err) != 0, err == nil && len(rows) == 0: // the server does not know it
		return "", nil
	case err != nil:
		return "", err
	}
	return rows[0][0], nil
}

func contains(text string, words []string) bool {
	for _, w := range words {
		if strings.Contains(text, w) {
			return true
		}
	}
	return false
}

// set names the first of some variables that the server has, with its value.
func (e *Examination) set(names ...string) (name, value string) {
	for _, name := range names {
		if value, there := e.settings[name]; there {
			return name, value
		}
	}
	return "", ""
}

// durability looks at what a crash can take back.
func (e *Examination) durability() {
	flush := e.settings["innodb_flush_log_at_trx_commit"]
	value := "innodb_flush_log_at_trx_commit is " + flush
	switch {
	case flush == "1":
		e.add("RL103", doctor.OK, value)
	case conn.IsOn(e.settings["wsrep_on"]):
		e.add("RL103", doctor.Warn, value)
	default:
		e.add("RL103", doctor.Fail, value)
	}
	switch sync := e.settings["sync_binlog"]; {
	case !conn.IsOn(e.settings["log_bin"]):
		e.add("RL108", doctor.OK, "log_bin is OFF")
	case sync == "1":
		e.add("RL108", doctor.OK, "sync_binlog is 1")
	case e.replicas > 0:
		e.add("RL108", doctor.Fail, "sync_binlog is "+sync+", with "+count(e.replicas, "replica"))
	default:
		e.add("RL108", doctor.Warn, "sync_binlog is "+sync)
	}
	redo, known := e.status["innodb_redo_log_enabled"]
	doublewrite := e.settings["innodb_doublewrite"]
	switch {
	case known && !conn.IsOn(redo):
		e.add("RL109", doctor.Fail, "the redo log is off")
	case !conn.IsOn(doublewrite):
		e.add("RL109", doctor.Warn, "innodb_doublewrite is "+doublewrite)
	default:
		e.add("RL109", doctor.OK, "innodb_doublewrite is "+doublewrite)
	}
}

// limits looks at what ends or delays statements and sessions.
func (e *Examination) limits() {
	name, level := e.set("transaction_isolation", "tx_isolation")
	if strings.EqualFold(level, "SERIALIZABLE") {
		e.add("RL104", doctor.Warn, name+" is "+level, "variable", name)
	} else {
		e.add("RL104", doctor.OK, level)
	}
	if detect := e.settings["innodb_deadlock_detect"]; conn.IsOn(detect) {
		e.add("RL105", doctor.OK, "on")
	} else {
		e.add("RL105", doctor.Warn, "innodb_deadlock_detect is "+detect+", innodb_lock_wait_timeout "+e.settings["innodb_lock_wait_timeout"]+" s")
	}
	e.silence()
	name, value := e.set("max_statement_time", "max_execution_time") // seconds, and milliseconds
	limit, _ := strconv.ParseFloat(value, 64)
	unit := time.Millisecond
	if name == "max_statement_time" {
		unit = time.Second
	}
	if d := time.Duration(limit * float64(unit)); d > 0 && d <= 2*time.Second {
		e.add("RL107", doctor.Warn, fmt.Sprintf("%s is %s (%v)", name, value, d), "variable", name)
	} else {
		e.add("RL107", doctor.OK, name+" is "+value)
	}
}

// silence looks at what ends sessions that say nothing.
func (e *Examination) silence() {
	found := false
	if e.Sessions != "" {
		for _, name := range []string{"idle_transaction_timeout", "idle_readonly_transaction_timeout", "idle_write_transaction_timeout"} {
			if d := e.seconds(name); d > 0 && d <= e.o.TTL {
				found = true
				e.add("RL106", doctor.Fail, fmt.Sprintf("%s is %v, the TTL %v", name, d, e.o.TTL), "variable", name)
			}
		}
	}
	wait := e.seconds("wait_timeout")
	value := fmt.Sprintf("wait_timeout is %v", wait)
	if wait < time.Minute {
		e.add("RL106", doctor.Warn, value)
	} else if !found {
		e.add("RL106", doctor.OK, value)
	}
}

func (e *Examination) seconds(name string) time.Duration {
	n, _ := strconv.Atoi(e.settings[name])
	return time.Duration(n) * time.Second
}

const leastGoodPacket = 1 << 20

// connections looks at how many there may be, and at the size of a statement.
func (e *Examination) connections(ctx context.Context) error {
	rows, err := e.sessions[0].ask(ctx, "SELECT @@SESSION.max_user_connections, @@SESSION.max_allowed_packet")
	if err != nil {
		return err
	}
	each, need := e.needed()
	most, _ := strconv.Atoi(e.settings["max_connections"])
	used, _ := strconv.Atoi(e.status["threads_connected"])
	ofUser, _ := strconv.Atoi(rows[0][0])
	free, raise := most-used, fmt.Sprintf("max_connections=%d", most+need)
	value := fmt.Sprintf("%d of %d", free, most)
	set := "SET PERSIST "
	if e.mariaDB {
		set = "SET GLOBAL "
	}
	raise = set + raise
	if ofUser > 0 && ofUser < need {
		free, value = ofUser, fmt.Sprintf("%d for this user (max_user_connections)", ofUser)
		raise = fmt.Sprintf("ALTER USER %s WITH MAX_USER_CONNECTIONS %d", e.user, 2*need)
	}
	value += fmt.Sprintf("; %s of up to %d", count(e.o.Programs, "program"), each)
	if free < need {
		e.add("RL130", doctor.Warn, value, "raise", raise)
	} else {
		e.add("RL130", doctor.OK, value)
	}
	packet, _ := strconv.Atoi(rows[0][1])
	value = fmt.Sprintf("max_allowed_packet is %d", packet)
	if packet < leastGoodPacket {
		e.add("RL131", doctor.Warn, value)
	} else {
		e.add("RL131", doctor.OK, value)
	}
	return nil
}

// needed is how many connections a program may have, and all of them together.
func (e *Examination) needed() (each, all int) {
	each = cmp.Or(e.o.Connections, e.Connections)
	return each, each * e.o.Programs
}

// RefusedConnections looks a second time how many the server has refused: its count begins with its start, and what was
// refused long ago says nothing of now.
func (e *Examination) RefusedConnections(ctx context.Context) error {
	const id, name = "RL132", "connection_errors_max_connections"
	now, err := e.sessions[0].status(ctx)
	if err != nil {
		return err
	}
	before, _ := strconv.Atoi(e.status[name])
	all, _ := strconv.Atoi(now[name])
	most, _ := strconv.Atoi(e.settings["max_connections"])
	_, need := e.needed()
	value := fmt.Sprintf("%d since the start of the server, with max_connections %d", all, most)
	switch {
	case all > before:
		e.add(id, doctor.Warn, fmt.Sprintf("%d just now, %s", all-before, value), "connections", strconv.Itoa(most+need))
	case all > 0:
		e.add(id, doctor.Info, "none just now, "+value)
	default:
		e.add(id, doctor.OK, "none")
	}
	return nil
}
