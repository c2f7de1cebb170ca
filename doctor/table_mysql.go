package doctor

// MySQL is the table of what a Doctor looks at on MySQL and MariaDB. It is a copy.
//
// In commands {SET} is SET PERSIST on MySQL and SET GLOBAL on MariaDB, where the option file must say it too.
func MySQL() []Entry {
	return []Entry{
		{
			ID: "RL101", Title: "version", Look: "`VERSION()`, `@@version_comment`, `aurora_version`",
			Verdicts: []Verdict{
				{Fail, "older than MySQL 8.0 or MariaDB 10.6, or another product that speaks the protocol (TiDB, Vitess, PlanetScale)", "The statements of the locks need row locks with SKIP LOCKED as these servers have them: use MySQL 8.0 or newer, or MariaDB 10.6 or newer.", ""},
				{Info, "Amazon Aurora", "Use the address of the writer (the cluster endpoint); a reader is read-only, and an instance endpoint does not follow a failover.", ""},
			},
		},
		{
			ID: "RL102", Title: "takes writes", Look: "`read_only`, `innodb_read_only`, `super_read_only`, `offline_mode`; MySQL: `READ ONLY` of the schema; `transaction_read_only`, `tx_read_only`",
			Verdicts: []Verdict{
				{Fail, "one of them is on", "The server is a standby, or it or the schema was made read-only: no lock can be taken. Name the primary in the address; only if this is the primary, make it writable.", "{mend}"},
				{Warn, "`transaction_read_only` or `tx_read_only` is on", "Transactions are read-only where nobody says otherwise. If the library's own connections are refused too, RL163 says so; your own transactions cannot write under a guard, and MarkRun fails.", "{mend}"},
			},
		},
		{
			ID: "RL103", Title: "commits survive a crash of the server", Look: "`innodb_flush_log_at_trx_commit`",
			Verdicts: []Verdict{
				{Fail, "not 1", "A crash of the server forgets the last second of commits, and with it who holds a lock: a key is granted twice, and tokens go back.", "{SET} innodb_flush_log_at_trx_commit=1"},
				{Warn, "not 1, on a node of Galera", "A commit is safe only while one node of the cluster lives on: if all go down together, the last second is lost, and with it who holds a lock.", "{SET} innodb_flush_log_at_trx_commit=1"},
			},
		},
		{
			ID: "RL104", Title: "default isolation level", Look: "`transaction_isolation`, `tx_isolation`",
			Verdicts: []Verdict{
				{Warn, "SERIALIZABLE", "The library's own connections set their level. But plain reads of your guarded transactions lock rows, and deadlocks follow.", "{SET} {variable}='REPEATABLE-READ'"},
			},
		},
		{
			ID: "RL105", Title: "deadlock detection", Look: "`innodb_deadlock_detect`, `innodb_lock_wait_timeout`",
			Verdicts: []Verdict{
				{Warn, "off", "Transactions with LockTx or a guard that wait for each other wait until innodb_lock_wait_timeout, instead of one of them being undone at once.", "{SET} innodb_deadlock_detect=ON"},
			},
		},
		{
			ID: "RL106", Title: "silent connections are kept", Look: "`wait_timeout`; MariaDB: `idle_transaction_timeout`, `idle_readonly_transaction_timeout`, `idle_write_transaction_timeout`",
			Verdicts: []Verdict{
				{Warn, "`wait_timeout` below 60 s", "Connections that the library keeps for its next statement are closed by the server, and opened again each time.", "{SET} wait_timeout=28800"},
				{Fail, "MariaDB with `SelectForUpdate`: a transaction that is idle for less than the TTL is ended", "A lock of SelectForUpdate is an open transaction: a holder that stands still for so long loses its key before its TTL is over.", "SET GLOBAL {variable}=0"},
			},
		},
		{
			ID: "RL107", Title: "limits on the time of a statement", Look: "MySQL: `max_execution_time`; MariaDB: `max_statement_time`",
			Verdicts: []Verdict{
				{Warn, "2 s or less", "The server ends statements that wait for a lock before the library does, and answers what the library takes for a server that is busy.", "{SET} {variable}=0"},
			},
		},
		{
			ID: "RL108", Title: "the binary log survives a crash of the machine", Look: "`log_bin`, `sync_binlog`",
			Verdicts: []Verdict{
				{Warn, "`log_bin` is on and `sync_binlog` not 1", "After a power cut the server undoes commits that its binary log has not got: a key can be granted twice.", "{SET} sync_binlog=1"},
				{Fail, "the same, and replicas are seen", "After a power cut replicas have other commits than their source, which undoes those that its binary log has not got: a key can be granted twice, and replication breaks.", "{SET} sync_binlog=1"},
			},
		},
		{
			ID: "RL109", Title: "pages survive a crash", Look: "`innodb_doublewrite`, status `Innodb_redo_log_enabled`",
			Verdicts: []Verdict{
				{Fail, "the redo log is off", "A crash of the server loses the database. This is meant for the loading of data only.", "ALTER INSTANCE ENABLE INNODB REDO_LOG"},
				{Warn, "`innodb_doublewrite` is off", "A power cut in the middle of a write can leave a page in two halves, and the lock tables unreadable, unless the file system writes pages whole.", "innodb_doublewrite=ON in the option file, and a restart"},
			},
		},
		{
			ID: "RL110", Title: "privileges on the lock tables", Look: "statements that change no row, for each table: `SELECT`, `INSERT … SELECT … WHERE 1=0`, `UPDATE … WHERE 1=0`, `DELETE … WHERE 1=0`",
			Verdicts: []Verdict{
				{Fail, "one is denied", "Locks need all four on each of their tables.", "GRANT SELECT, INSERT, UPDATE, DELETE ON `{database}`.{table} TO {user}"},
			},
		},
		{
			ID: "RL111", Title: "may create tables", Look: "with `Options.Migrate`: `CREATE TABLE IF NOT EXISTS` of a table that is there",
			Verdicts: []Verdict{
				{Info, "denied", "Only Migrate needs it: run it as another user, or grant it for as long.", "GRANT CREATE, ALTER, INDEX ON `{database}`.* TO {user}"},
			},
		},
		{
			ID: "RL112", Title: "KILL QUERY", Look: "one session waits in `SLEEP`, another ends its statement", Needs: "two connections at once, and Options.ReadOnly off",
			Verdicts: []Verdict{
				{Warn, "the statement is not ended", "An attempt that waits behind somebody's transaction is ended by the server's own limit after a second instead of after 50 ms. KILL of a user's own sessions needs no privilege: most likely a proxy stands between, whose session numbers are not the server's.", ""},
			},
		},
		{
			ID: "RL113", Title: "GET_LOCK", Look: "one session takes a named lock, another must not get it", Needs: "two connections at once, and Options.ReadOnly off",
			Verdicts: []Verdict{
				{Warn, "it is refused, or both sessions get it", "Named locks wake those who wait for a key; who has it never depends on them. Here they wake nobody, or all at once: waiters get a key later. Set Options.WakeupConns to -1, so that they probe and no connection is spent on it.", ""},
			},
		},
		{
			ID: "RL114", Title: "the tables of runs and of LockTx", Look: "the same statements as RL110, for `rowlock_run` and `rowlock_tx`",
			Verdicts: []Verdict{
				{Warn, "one is missing, or denied", "Locks work without them. Once, MarkRun and rowlock run with --run or --period need the table of runs, and LockTx its own.", "{mend}"},
			},
		},
		{
			ID: "RL120", Title: "the lock tables are there", Look: "a read of all columns of each table",
			Verdicts: []Verdict{
				{Fail, "a table is missing", "No lock can be taken before the tables are there.", "rowlock migrate --up"},
			},
		},
		{
			ID: "RL121", Title: "nothing is attached to the lock tables", Look: "`information_schema.TRIGGERS`, `REFERENTIAL_CONSTRAINTS`, `PARTITIONS`; triggers are seen with the privilege TRIGGER only",
			Verdicts: []Verdict{
				{Fail, "a trigger on INSERT or UPDATE", "Acquires fail, with \"held for up to 0s longer\" or with a token of 0: the trigger hides the number by which an acquire learns that it has the key.", "{remove}"},
				{Warn, "a trigger on DELETE, a foreign key or partitions", "The statements of the locks run it too, in each renewal: it makes them slower, locks more rows, or makes them fail.", "{remove}"},
			},
		},
		{
			ID: "RL122", Title: "dead rows", Look: "rows that ended more than two days ago, among the first 100000",
			Verdicts: []Verdict{
				{Warn, "more than 1000", "Nobody removes the rows of keys that are not used any more: all programs have Options.ReapInterval negative, or the user may not DELETE. Locks are as fast as ever; the table grows.", "rowlock reap --older 48h"},
			},
		},
		{
			ID: "RL123", Title: "the lock tables have the layout of this version", Look: "`information_schema.COLUMNS` and `STATISTICS`: types, collations and nullability of the columns, the unique indexes; also of the tables of runs and of `LockTx`, if they are there",
			Verdicts: []Verdict{
				{Fail, "a column is missing or of another type, a column of somebody else's needs a value, or a unique index is not as the migration makes it", "A tool that copied the schema has changed the table, or it was made by another version of rowlock, or it is somebody else's; then set Options.Prefix to a name that is free. A wider type does no harm, nor does the character set of the table itself.", "{mend}"},
			},
		},
		{
			ID: "RL124", Title: "storage engine of the lock tables", Look: "`information_schema.TABLES`",
			Verdicts: []Verdict{
				{Fail, "not InnoDB", "The engine has no row locks and no transactions: locks exclude nobody.", "ALTER TABLE {table} ENGINE=InnoDB"},
			},
		},
		{
			ID: "RL130", Title: "free connections", Look: "`max_connections`, `max_user_connections`, status `Threads_connected`; needed are those of `Options.Programs` programs",
			Verdicts: []Verdict{
				{Warn, "fewer are free than the programs may open", "A program that gets no connection renews nothing: its locks are lost.", "{raise}"},
			},
		},
		{
			ID: "RL131", Title: "size of a statement", Look: "`max_allowed_packet` of the session",
			Verdicts: []Verdict{
				{Warn, "below 1 MiB", "A statement renews hundreds of locks at once; with a smaller packet it takes several.", "{SET} max_allowed_packet=67108864"},
			},
		},
		{
			ID: "RL132", Title: "refused connections", Look: "status `Connection_errors_max_connections`, since the start of the server",
			Verdicts: []Verdict{
				{Warn, "above 0", "The server had no connection left for somebody. Whose renewal that was lost its lock, if it lasted.", "{SET} max_connections={connections}"},
			},
		},
		{
			ID: "RL140", Title: "kind of cluster", Look: "what `Store.Cluster` says: see [clusters](guides/clusters.md)",
			Verdicts: []Verdict{
				{Info, "always", "What holds after a failover: {promised}.", ""},
			},
		},
		{
			ID: "RL141", Title: "replicas have what was acknowledged", Look: "sessions that receive the binary log, without semi-synchronous replication; filters of the binary log (`SHOW BINARY LOG STATUS`, `SHOW MASTER STATUS`) and of a replica (`replicate_do_db` and the like; MySQL: `performance_schema.replication_applier_global_filters`)", Needs: "PROCESS, REPLICATION CLIENT (MariaDB: BINLOG MONITOR)",
			Verdicts: []Verdict{
				{Fail, "a filter leaves the lock tables out, and there is a cluster or a replica", "A replica never gets the locks, whatever it acknowledges: after a failover all keys are free, and two programs hold one. Take binlog-do-db, binlog-ignore-db and the replicate filters out of the option files of all servers (CHANGE REPLICATION FILTER empties the latter on MySQL), and make the replicas anew.", ""},
				{Info, "a filter leaves the lock tables out, and no replica is seen", "A replica that is added would never get the locks: take the filter away before.", ""},
				{Warn, "there is one", "A replica gets a commit after it was acknowledged. If it may be promoted, a key is granted twice, and tokens go back: use semi-synchronous replication or Group Replication. If it is only read, nothing is wrong.", ""},
			},
		},
		{
			ID: "RL142", Title: "one primary of the group", Look: "`group_replication_single_primary_mode`",
			Verdicts: []Verdict{
				{Fail, "off, with `SelectForUpdate`", "All members take writes, and row locks are local to each: a key is granted twice. The library refuses this, unless Options.SingleWriter says that a proxy leads to one member only.", "SELECT group_replication_switch_to_single_primary_mode()"},
				{Warn, "off, with the other strategies", "Locks work; guards, InTx, Once, MarkRun, LockTx, Shared and Slots need one writable member, because row locks are local to each.", "SELECT group_replication_switch_to_single_primary_mode()"},
			},
		},
		{
			ID: "RL143", Title: "one writer in Galera", Look: "`wsrep_on`, the strategy, and `Options.SingleWriter`",
			Verdicts: []Verdict{
				{Fail, "`SelectForUpdate` without `Options.SingleWriter`", "All nodes take writes, and row locks are local to each: a key would be granted twice. The library refuses this: use VersionColumn, or set Options.SingleWriter if a proxy leads to one node only.", ""},
				{Warn, "`SelectForUpdate` with `Options.SingleWriter`, the other strategies without it", "Row locks are local to a node, so guards, InTx, Once, MarkRun, LockTx, Shared, Slots and SelectForUpdate need one writable node. See that the proxy leads to one node only, and cuts connections to the one before: on-marked-down shutdown-sessions in HAProxy. The other locks need neither. With VersionColumn and UniqueInsert Options.SingleWriter says that it is so, and ends this warning.", ""},
				{Info, "the other strategies with `Options.SingleWriter`", "Guards, InTx, Once, MarkRun, LockTx, Shared and Slots rest on it that the program is led to one node only, and that connections to the one before are cut.", ""},
			},
		},
		{
			ID: "RL144", Title: "time-out of semi-synchronous replication", Look: "`rpl_semi_sync_source_timeout`, `rpl_semi_sync_master_timeout`",
			Verdicts: []Verdict{
				{Warn, "less than a day", "After the time-out commits go on without a replica, and a failover forgets them: a key is granted twice.", "{SET} {variable}=4294967295"},
			},
		},
		{
			ID: "RL145", Title: "when semi-synchronous replication waits", Look: "`rpl_semi_sync_source_wait_point`, `rpl_semi_sync_source_wait_no_replica`; older, and on MariaDB: `rpl_semi_sync_master_wait_point`, `rpl_semi_sync_master_wait_no_slave`",
			Verdicts: []Verdict{
				{Fail, "not AFTER_SYNC", "Others see a commit before a replica has it, and a failover takes it back: a key that was seen to be free or held is not.", "{SET} {variable}=AFTER_SYNC"},
				{Warn, "`wait_no_replica` (`wait_no_slave`) is OFF", "While too few replicas are connected commits do not wait for one, whatever the time-out, and a failover forgets them: a key is granted twice.", "{SET} {variable}=ON"},
			},
		},
		{
			ID: "RL146", Title: "consistency of the group", Look: "`group_replication_consistency`",
			Verdicts: []Verdict{
				{Fail, "EVENTUAL", "A new primary answers before it has applied what the old one acknowledged: a key is granted twice.", "{SET} {variable}=BEFORE_ON_PRIMARY_FAILOVER"},
			},
		},
		{
			ID: "RL147", Title: "members without a majority", Look: "`group_replication_unreachable_majority_timeout`, `group_replication_autorejoin_tries`",
			Verdicts: []Verdict{
				{Fail, "both above 0", "Members without a majority leave, and one that comes back can begin a group of its own, without commits that were acknowledged.", "{SET} group_replication_unreachable_majority_timeout=0"},
			},
		},
		{
			ID: "RL148", Title: "the server follows no other", Look: "`SHOW REPLICA STATUS`, of a server that takes writes", Needs: "REPLICATION CLIENT (MariaDB: REPLICA MONITOR)",
			Verdicts: []Verdict{
				{Warn, "it is a replica too", "Two servers take writes: a lock that was taken on the source arrives here later, over what was granted here. Unless this is a promoted primary whose old settings stayed, name the source in the address.", "STOP REPLICA; RESET REPLICA ALL, if this is the primary now"},
			},
		},
		{
			ID: "RL149", Title: "the node can serve", Look: "Galera: `wsrep_cluster_status`, `wsrep_local_state_comment`, `wsrep_ready`; Group Replication: the members of the group",
			Verdicts: []Verdict{
				{Fail, "no", "The node is cut off from the others, or not in step with them, or not the primary: no lock can be taken here. Nothing more was looked at on a node of Galera.", ""},
			},
		},
		{
			ID: "RL150", Title: "old transactions", Look: "`information_schema.INNODB_TRX`, without the sessions of `SelectForUpdate`: those that lock rows and are open for more than 60 s. The server renews that table only when nobody read it for 0.1 s", Needs: "PROCESS",
			Verdicts: []Verdict{
				{Warn, "there is one", "While it is open, keys that it guards stay pinned, rows that it locks can be neither taken nor reaped, and the server keeps old versions of all rows. Look what {whose} does, and end it if nobody misses it. A prepared XA branch belongs to no session: XA RECOVER lists the branches, XA ROLLBACK or XA COMMIT ends one, as its coordinator has decided.", "{end}"},
			},
		},
		{
			ID: "RL160", Title: "clock", Look: "`UTC_TIMESTAMP(6)` between two looks at our clock, the narrowest of nine",
			Verdicts: []Verdict{
				{Info, "always", "Locks use the database's clock alone; the difference matters to who reads its times.", ""},
			},
		},
		{
			ID: "RL161", Title: "latency of a renewal", Look: "a lock of a key of our own is taken, renewed and released `Options.Samples` times; the 99th percentile counts", Needs: "Options.ReadOnly off, and tables that work",
			Verdicts: []Verdict{
				{Fail, "more than a sixth of the TTL", "A renewal takes {renewal}: one that fails leaves no time for a second, and the lock is lost. Use a TTL of {need} or more, or a database that is nearer.", ""},
				{Warn, "more than a twentieth of the TTL", "A renewal takes {renewal}: use a TTL of {need} or more.", ""},
			},
		},
		{
			ID: "RL162", Title: "TTL", Look: "the TTL against the latency of renewals and the time of a failover: TTL ≥ 1.77 · (failover + 2 · renewal)", Needs: "Options.ReadOnly off, and tables that work",
			Verdicts: []Verdict{
				{Warn, "shorter than that", "A failover of {failover} makes all holders lose their locks. Use a TTL of {sane} or more; a crash of a holder then keeps its keys taken for as long.", ""},
			},
		},
		{
			ID: "RL163", Title: "a lock can be taken", Look: "the same lock of a key of our own; and whatever was refused of the statements that are tried for RL110 and RL120", Needs: "Options.ReadOnly off, and tables that work",
			Verdicts: []Verdict{
				{Fail, "it is refused, or has no answer in time", "No lock can be taken, renewed and released here: the answer says why.", ""},
			},
		},
		{
			ID: "RL170", Title: "ProxySQL", Look: "`PROXYSQL INTERNAL SESSION`, which servers do not know",
			Verdicts: []Verdict{
				{Info, "it answers", "Rules for the lock tables must send reads to the writer too. With multiplexing, see RL171.", ""},
			},
		},
		{
			ID: "RL171", Title: "a connection is one session", Look: "`CONNECTION_ID()` on three connections in turn", Needs: "two connections at once",
			Verdicts: []Verdict{
				{Fail, "with `SelectForUpdate`: the number changes, or two connections have one", "A proxy shares sessions among clients (multiplexing), but a lock of SelectForUpdate is a session: another client can end it, and named locks do not work. Switch multiplexing off for this user, or use VersionColumn.", ""},
				{Info, "with the other strategies: the same", "A proxy shares sessions among clients (multiplexing). Locks are rows and work; statements that wait are not ended by KILL, and named locks wake nobody: see RL112 and RL113.", ""},
			},
		},
		{
			ID: "RL172", Title: "a connection leads to one server", Look: "`@@hostname`, `@@port` and `@@server_id` on three connections in turn", Needs: "two connections at once",
			Verdicts: []Verdict{
				{Fail, "different servers answer", "A proxy spreads statements over several servers. A read of a replica shows locks of the past, and two servers that take writes grant a key twice: send all statements of this user to the writer.", ""},
			},
		},
	}
}
