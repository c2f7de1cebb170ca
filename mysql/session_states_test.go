package mysqllock

import (
	"strings"
	"testing"

	"github.com/rowlock/rowlock/internal/testserver"
)

// sessionState is something that a session can be left with.
type sessionState struct {
	name       string
	kind       string   // of the server; empty: both
	statements []string // OTHER stands for another database with lock tables
	refused    string   // a new session that is so cannot be used; the error says this
	alone      bool     // not together with others in one session
	one        bool     // only one session can be so, or it bars the others
	seenInTx   bool     // a transaction of InTx is not begun on what another has left so
	never      bool     // not inside a transaction
}

// set is the state of one variable, or of several that are named with commas between.
func set(assignments string) sessionState {
	name, _, _ := strings.Cut(assignments, "=")
	return sessionState{name: assignments, statements: []string{"SET SESSION " + assignments}, seenInTx: inTransactions[name]}
}

// inTransactions are the variables on which the statements of InTx depend; others are the function's.
var inTransactions = map[string]bool{"completion_type": true, "autocommit": true, "timestamp": true, "transaction_isolation": true,
	"tx_isolation": true, "transaction_read_only": true, "tx_read_only": true, "wait_timeout": true}

func on(kind string, states ...sessionState) (of []sessionState) {
	for _, s := range states {
		s.kind = kind
		of = append(of, s)
	}
	return of
}

// cannotBe is a state that only the privileged can set, or end.
func cannotBe(s sessionState, why string) sessionState {
	s.refused, s.alone, s.seenInTx, s.never = why, true, true, true
	return s
}

// variables are the states of variables with session scope.
func variables() []sessionState {
	list := []sessionState{
		set("completion_type=1"), set("completion_type=2"), set("autocommit=0"),
		set("timestamp=1000000000"), set("timestamp=UNIX_TIMESTAMP()+86400"),
		set("innodb_lock_wait_timeout=50"), set("lock_wait_timeout=86400"),
		set("sql_safe_updates=1"), set("sql_select_limit=1"), set("sql_select_limit=0"),
		set("sql_big_selects=0,max_join_size=1"), set("max_sort_length=64"),
		set("foreign_key_checks=0,unique_checks=0"), set("time_zone='+05:30'"),
		set("character_set_client=latin1"), set("character_set_connection=utf16"), set("character_set_results=latin1"), set("character_set_results=NULL"),
		set("collation_connection=latin1_general_cs"), set("collation_connection=utf8mb4_bin"),
		set("sql_mode='ANSI_QUOTES,PIPES_AS_CONCAT,NO_BACKSLASH_ESCAPES,IGNORE_SPACE'"), set("sql_mode='HIGH_NOT_PRECEDENCE,NO_UNSIGNED_SUBTRACTION'"),
		set("sql_mode='PAD_CHAR_TO_FULL_LENGTH,REAL_AS_FLOAT'"), set("sql_mode='TRADITIONAL'"), set("sql_mode=''"),
		set("div_precision_increment=0"), set("group_concat_max_len=4"), set("sql_auto_is_null=1"), set("sql_notes=0"), set("sql_warnings=1"),
		set("max_error_count=0"), set("big_tables=1"), set("sql_buffer_result=1"), set("lc_time_names='de_DE'"), set("lc_messages='fr_FR'"),
		set("insert_id=7"), set("last_insert_id=7"), set("sql_quote_show_create=0"), set("low_priority_updates=1"),
		set("default_storage_engine=MyISAM"), set("default_tmp_storage_engine=MyISAM"), set("explicit_defaults_for_timestamp=0"),
		set("tmp_table_size=1024"), set("max_heap_table_size=16384"), set("sort_buffer_size=32768"), set("join_buffer_size=128"),
		set("optimizer_prune_level=0"), set("optimizer_search_depth=1"), set("eq_range_index_dive_limit=1"), set("max_seeks_for_key=1"),
		set("default_week_format=3"), set("auto_increment_increment=7"), set("profiling=1"), set("session_track_schema=0"),
		set("optimizer_switch='index_merge=off,mrr=on,mrr_cost_based=off,semijoin=off,derived_merge=off,index_condition_pushdown=off'"),
		set("binlog_row_image=MINIMAL"), set("pseudo_thread_id=1"), set("rand_seed1=1"),
		cannotBe(set("sql_log_bin=0"), "sql_log_bin is "),
	}
	list = append(list, on(testserver.MySQL,
		set("transaction_isolation='SERIALIZABLE'"), set("transaction_isolation='READ-UNCOMMITTED'"), set("transaction_read_only=1"),
		set("max_execution_time=1"), set("use_secondary_engine=FORCED"), set("range_optimizer_max_mem_size=1"),
		set("sql_mode='TIME_TRUNCATE_FRACTIONAL'"), set("cte_max_recursion_depth=0"), set("sql_require_primary_key=1"),
		set("sql_generate_invisible_primary_key=1"), set("explain_format=JSON"), set("rbr_exec_mode=IDEMPOTENT"), set("terminology_use_previous=BEFORE_8_0_26"),
		set("information_schema_stats_expiry=0"), set("print_identified_with_as_hex=1"),
		cannotBe(set("gtid_next='3e11fa47-71ca-11e1-9e33-c80aa9429562:1'"), "gtid_next"),
	)...)
	return append(list, on(testserver.MariaDB,
		set("tx_isolation='SERIALIZABLE'"), set("tx_isolation='READ-UNCOMMITTED'"), set("tx_read_only=1"),
		set("sql_mode='EMPTY_STRING_IS_NULL'"), set("sql_mode='ORACLE'"), set("sql_mode='SIMULTANEOUS_ASSIGNMENT,TIME_ROUND_FRACTIONAL'"),
		set("character_set_results=ucs2"), set("max_statement_time=0.001"), set("max_session_mem_used=1000000"),
		set("in_predicate_conversion_threshold=2"), set("optimizer_max_sel_arg_weight=1"), set("system_versioning_asof='2020-01-01 00:00:00'"),
		set("idle_transaction_timeout=1"), set("idle_write_transaction_timeout=1"), set("innodb_snapshot_isolation=1"),
		set("wsrep_dirty_reads=1"), set("wsrep_OSU_method='RSU'"), set("server_id=77"), set("old_mode='ZERO_DATE_TIME_CAST'"), set("max_recursive_iterations=0"), set("alter_algorithm=INSTANT"), set("pseudo_slave_mode=1"),
		set("check_constraint_checks=0"), set("join_cache_level=8"), set("use_stat_tables=NEVER"), set("gtid_seq_no=0"),
		cannotBe(set("skip_replication=1"), "skip_replication is "),
	)...)
}

// states are what a session can hold beside its variables.
func states() []sessionState {
	copies := []string{}
	for _, table := range newNames(defaultPrefix).all() {
		copies = append(copies, "CREATE TEMPORARY TABLE "+table+" LIKE OTHER."+table)
	}
	return []sessionState{
		{name: "an open transaction", statements: []string{"START TRANSACTION", "INSERT INTO left_there VALUES (RAND()*1000000000)"}, alone: true, one: true, never: true},
		{name: "the next transaction is read-only", statements: []string{"SET TRANSACTION READ ONLY"}, alone: true, never: true},
		{name: "a named lock", statements: []string{"DO GET_LOCK(CONCAT('left:',DATABASE()),0)"}, one: true},
		{name: "a user variable", statements: []string{"SET @a=1"}},
		{name: "temporary tables", statements: copies, alone: true, seenInTx: true},
		{name: "tables are locked", statements: []string{"LOCK TABLES left_there READ"}, refused: "LOCK TABLES", alone: true, never: true},
		{name: "an XA transaction", statements: []string{"XA START 'OTHER'"}, refused: "XA", alone: true, one: true, never: true},
		{name: "another default database", statements: []string{"USE OTHER"}, alone: true, seenInTx: true},
	}
}

// statesOn are those of a server, with the name of the other database.
func statesOn(l *lab, other string, list ...sessionState) (of []sessionState) {
	for _, s := range list {
		if s.kind != "" && s.kind != l.kind {
			continue
		}
		statements := make([]string, len(s.statements))
		for i, text := range s.statements {
			statements[i] = strings.ReplaceAll(text, "OTHER", other)
		}
		s.statements = statements
		of = append(of, s)
	}
	return of
}

// otherSchema is another database with lock tables, and a table in this one.
func (l *lab) otherSchema(t testing.TB) string {
	t.Helper()
	exec(t, l.db, "CREATE TABLE left_there (n INT PRIMARY KEY) ENGINE=InnoDB")
	other := newLabAt(t, l.kind, l.dsn(), l.strategy)
	other.store()
	return other.config.DBName
}

func leftInASession(l *lab, other string) []sessionState {
	return statesOn(l, other, append(states(), set("completion_type=1"), set("timestamp=1000000000"), set("sql_mode=''"), set("wait_timeout=7"))...)
}
