package conn

import (
	"cmp"
	"strconv"
	"strings"
	"time"
)

// A statement means what the settings of its session make of it. Those come from the server's configuration (my.cnf,
// init_connect) or from the DSN; what others have used is not used (dialled.go). So each connection on which the library sends
// statements of its own is brought to the settings below by one SET, and looked at by one SELECT, before anything else is
// sent on it.
//
// What is not in the list changes no statement of the library: each reads and writes rows by an index that it names
// (so optimizer_switch and its like change no plan that matters), values are x'..' or numbers, times are
// UTC_TIMESTAMP, and no table has what sql_auto_is_null, auto_increment_*, explicit_defaults_for_timestamp or
// default_storage_engine are about. docs/operations.md has the list too.

// setting is one variable.
type setting struct {
	name string
	to   string // what it is set to, as in SQL
	is   string // what it is then, where that reads otherwise
	on   dialect
	of   kinds
	look string // is 1 while it is right; empty: the variable is compared
	next string // it is set for the next transaction only, under this name
	must bool   // it cannot be set without a privilege, so it is only looked at
	rare bool   // a server may lack it
	why  string
}

// dialect is which servers know a variable.
type dialect uint8

const (
	both dialect = iota
	onlyMySQL
	onlyMariaDB
)

// Each server takes the other's comment for one:
// https://dev.mysql.com/doc/refman/9.7/en/comments.html, https://mariadb.com/kb/en/comment-syntax/
var dialects = [...]struct{ begin, end string }{both: {}, onlyMySQL: {" /*!80000 ", " */"}, onlyMariaDB: {" /*M!100600 ", " */"}}

// Kind is what a connection is for.
type Kind uint8

const (
	Single      Kind = iota // single statements, in autocommit
	Waiter                  // the same, and GET_LOCK
	Session                 // a session of SelectForUpdate, which holds a row's lock
	Transaction             // InTx and Once: what the function may notice, such as sql_mode, is not touched
)

// kinds is a set of them.
type kinds uint8

const (
	single      = kinds(1<<Single | 1<<Waiter)
	session     = kinds(1 << Session)
	transaction = kinds(1 << Transaction)
	own         = single | session // only statements of the library are sent on them
	all         = own | transaction
)

// list is everything on which a statement depends. A string is _latin1: MySQL does not understand one that
// character_set_connection made UTF-16.
//
// The lock waits are a second bound, for where KILL is refused: a statement that waits for another transaction (or
// for a change of the table's definition) ends after a second with 1205, undone.
//
// Isolation levels. What the program's DSN or the server sets is meant for other transactions:
//
//   - Single statements in autocommit were written for REPEATABLE READ, the default of both servers. (With
//     innodb_snapshot_isolation at SERIALIZABLE MariaDB refuses them again and again where rows are wanted by many: 1020.)
//   - A guarded transaction of InTx and Once runs at READ COMMITTED, where a guard that fails locks nothing, and so does a
//     session of SelectForUpdate.
//   - At READ COMMITTED nothing can be written, nor a row be locked for an update, where the server logs statements (1665):
//     there the guarded transaction runs at REPEATABLE READ, after a plain read of the row, and SelectForUpdate is refused.
//     https://dev.mysql.com/doc/refman/9.7/en/binary-log-setting.html
var list = []setting{
	{name: "autocommit", to: "1", of: single, why: "each statement is a transaction of its own"},
	{name: "autocommit", to: "0", of: session | transaction, why: "what follows a deadlock can still be rolled back"},
	{name: "completion_type", to: "0", is: "NO_CHAIN", of: all, why: "COMMIT and ROLLBACK would begin another transaction, in which what follows is never committed"},
	{name: "timestamp", to: "DEFAULT", look: "TIMESTAMPDIFF(SECOND,NOW(),SYSDATE()) BETWEEN -10 AND 10", of: all, why: "the time at which a lease ends is the server's"},
	{name: "innodb_lock_wait_timeout", to: "1", of: single, why: "the longest that a statement waits for a row"},
	{name: "innodb_lock_wait_timeout", to: "5", of: session, why: "the longest that a session stays in the queue for a row"},
	{name: "lock_wait_timeout", to: "1", of: own, why: "the longest that a statement waits for a table"},
	{name: "sql_safe_updates", to: "0", of: own, why: "Reap and forced releases find rows without a key"},
	{name: "sql_select_limit", to: "18446744073709551615", of: own, why: "each key of a batch is a row of the answer"},
	{name: "sql_big_selects", to: "1", of: own, why: "max_join_size would refuse Reap, List and large batches"},
	{name: "max_sort_length", to: "1024", of: own, why: "keys of 255 bytes are put in order"},
	{name: "foreign_key_checks", to: "1", of: own, why: "with unique_checks off MariaDB locks a table that is empty"},
	{name: "unique_checks", to: "1", of: own, why: "a key has one row"},
	{name: "time_zone", to: "_latin1'SYSTEM'", of: own, why: "the age of a transaction is shown in it"},
	{name: "character_set_client", to: "utf8mb4", of: own, why: "the server reads statements in it"},
	{name: "character_set_connection", to: "utf8mb4", of: own, why: "the server converts strings to it"},
	{name: "character_set_results", to: "utf8mb4", of: own, why: "the server converts answers to it"},

	{name: "sql_mode", to: "_latin1'ONLY_FULL_GROUP_BY,STRICT_TRANS_TABLES,NO_ZERO_IN_DATE,NO_ZERO_DATE,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION'", on: onlyMySQL, of: own, why: "the default"},
	{name: "transaction_isolation", to: "2", is: "REPEATABLE-READ", on: onlyMySQL, of: single, why: "see above"},
	{name: "transaction_isolation", to: "1", is: "READ-COMMITTED", on: onlyMySQL, of: session | transaction, why: "see above"},
	{name: "transaction_read_only", to: "0", on: onlyMySQL, of: all, why: "nothing could be written"},
	{name: "max_execution_time", to: "0", on: onlyMySQL, of: own, why: "the library bounds its statements itself"},
	{name: "use_secondary_engine", to: "OFF", rare: true, on: onlyMySQL, of: own, why: "FORCED refuses tables that are in InnoDB only"},
	{name: "range_optimizer_max_mem_size", to: "8388608", on: onlyMySQL, of: own, why: "a batch that has too little of it locks all rows"},

	{name: "sql_mode", to: "_latin1'STRICT_TRANS_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION'", on: onlyMariaDB, of: own, why: "EMPTY_STRING_IS_NULL and ORACLE give statements another meaning"},
	{name: "tx_isolation", to: "2", is: "REPEATABLE-READ", on: onlyMariaDB, of: single, why: "see above"},
	{name: "tx_isolation", to: "1", is: "READ-COMMITTED", on: onlyMariaDB, of: session | transaction, why: "see above"},
	{name: "tx_read_only", to: "0", on: onlyMariaDB, of: all, why: "nothing could be written"},
	{name: "max_statement_time", to: "0", is: "0.000000", on: onlyMariaDB, of: own, why: "the library bounds its statements itself"},
	{name: "max_session_mem_used", to: "9223372036854775807", on: onlyMariaDB, of: own, why: "a batch needs more than the least"},
	{name: "in_predicate_conversion_threshold", to: "0", on: onlyMariaDB, of: own, why: "a batch would become a join, which locks other rows"},
	{name: "optimizer_max_sel_arg_weight", to: "32000", on: onlyMariaDB, of: own, why: "a batch that has too little of it locks all rows"},
	{name: "query_cache_type", to: "OFF", rare: true, on: onlyMariaDB, of: own, why: "an answer is the table's of now"},
	{name: "system_versioning_asof", to: "DEFAULT", on: onlyMariaDB, of: own, why: "a row is read as it is now"},
	{name: "wsrep_dirty_reads", to: "0", rare: true, on: onlyMariaDB, of: own, why: "a node that is cut off would answer from what it has, and a causality check would wait for nothing"},
	{name: "wsrep_OSU_method", to: "_latin1'TOI'", rare: true, on: onlyMariaDB, of: own, why: "tables would be made on one node only"},
	// MariaDB has timeouts of its own for a transaction that is idle, which would end a hold.
	{name: "idle_transaction_timeout", to: "0", on: onlyMariaDB, of: session, why: "it would end a hold"},
	{name: "idle_readonly_transaction_timeout", to: "0", on: onlyMariaDB, of: session, why: "it would end a hold"},
	{name: "idle_write_transaction_timeout", to: "0", on: onlyMariaDB, of: session, why: "it would end a hold"},

	{name: "sql_log_bin", to: "1", must: true, of: all, why: "the replicas would not get what is written, and a failover would forget it"},
	{name: "gtid_next", to: "AUTOMATIC", must: true, look: "@@SESSION.gtid_next LIKE 'AUTOMATIC%' OR @@SESSION.gtid_next='ANONYMOUS'", on: onlyMySQL, of: all, why: "only one commit is possible"},
	{name: "skip_replication", to: "0", must: true, on: onlyMariaDB, of: all, why: "the replicas would not apply what is written, and a failover would forget it"},
	{name: "wsrep_on", to: "1", must: true, rare: true, look: "@@SESSION.wsrep_on OR NOT @@GLOBAL.wsrep_on", on: onlyMariaDB, of: all, why: "the other nodes would not get what is written"},
}

// read is how the look reads it.
func (s *setting) read() string {
	if s.look != "" {
		return s.look
	}
	return "@@SESSION." + s.name
}

// want is what the look reads while it is right.
func (s *setting) want() string {
	switch {
	case s.look != "":
		return "1"
	case s.is != "":
		return s.is
	}
	return strings.Trim(strings.TrimPrefix(s.to, "_latin1"), "'")
}

// settingsOf are those of a kind, and wait_timeout where the server is to end the connection after so much silence.
func settingsOf(k Kind, silence time.Duration) (of []setting) {
	for _, s := range list {
		if s.of&(1<<k) != 0 {
			of = append(of, s)
		}
	}
	if silence > 0 {
		s := setting{name: "wait_timeout", to: strconv.FormatInt(int64(silence/time.Second), 10), why: "it ends a holder that is silent"}
		of = append([]setting{s}, of...)
	}
	return of
}

// joined writes part of each setting after first, those that one server has in the comment of that server. more: a comma
// comes before the first of them too.
func joined(of []setting, first string, more bool, part func(*setting) string) string {
	var b strings.Builder
	b.WriteString(first)
	for on, d := range dialects {
		open := false
		for i := range of {
			if int(of[i].on) != on {
				continue
			}
			if !open {
				b.WriteString(d.begin)
				open = true
			}
			if more {
				b.WriteString(",")
			}
			more = true
			b.WriteString(part(&of[i]))
		}
		if open {
			b.WriteString(d.end)
		}
	}
	return b.String()
}

// nextTransaction is the name of the isolation level of the next transaction alone, which is the session's too. While a
// transaction is open it cannot be set: see bring.
const nextTransaction = "the next transaction"

// canSet are those of the settings that can be set, but for what a server has refused.
func canSet(of []setting, refused map[string]bool) (can []setting) {
	for _, s := range of {
		if !s.must && !refused[s.name] {
			can = append(can, s)
		}
		if strings.HasSuffix(s.name, "_isolation") && !refused[nextTransaction] {
			can = append(can, setting{name: nextTransaction, next: "@@" + s.name, to: s.to, on: s.on})
		}
	}
	return can
}

// setText is the SET for settings. At least one is of both servers.
func setText(of []setting) string {
	return joined(of, "SET SESSION ", false, func(s *setting) string { return cmp.Or(s.next, s.name) + "=" + s.to })
}

// setOne is the SET for one of them; it sets nothing on a server that does not know it.
func setOne(s setting) string {
	return joined([]setting{s}, "SET @rowlock=0", true, func(s *setting) string { return cmp.Or(s.next, "SESSION "+s.name) + "=" + s.to })
}

// number is a value of a variable that is on or off as a number: MariaDB tells it so, or as a word.
func number(value string) string {
	switch value {
	case "ON":
		return "1"
	case "OFF":
		return "0"
	}
	return value
}

// lookText is an expression for what wrongIn takes: the values that both servers have, which server it is, and what that
// has.
func lookText(of []setting) string {
	marked := []setting{{look: "'mysql'", on: onlyMySQL}, {look: "'mariadb'", on: onlyMariaDB}}
	return joined(append(marked, of...), "CONCAT_WS('|'", true, (*setting).read) + ")"
}

// wrongIn names what is not as it must be, with its value: empty if all is. An older server than those of the list has
// neither part; what it lacks it is refused for later.
func wrongIn(of []setting, answer string) string {
	values := strings.Split(answer, "|")
	var wrong []string
	compare := func(on dialect) {
		for _, s := range of {
			if s.on != on || len(values) == 0 {
				continue
			}
			value := values[0]
			values = values[1:]
			switch {
			case number(value) == number(s.want()):
			case s.look != "":
				wrong = append(wrong, s.name+" is not "+s.to)
			default:
				wrong = append(wrong, s.name+" is "+value)
			}
		}
	}
	compare(both)
	if len(values) > 0 {
		server := values[0]
		values = values[1:]
		compare(map[string]dialect{"mysql": onlyMySQL, "mariadb": onlyMariaDB}[server])
	}
	return strings.Join(wrong, ", ")
}

// IsOn reports whether a variable's value says so. MariaDB has more values of read_only than ON.
func IsOn(value string) bool {
	switch strings.ToUpper(value) {
	case "0", "OFF", "":
		return false
	}
	return true
}
