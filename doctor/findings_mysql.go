package doctor

// MySQL is the table of what a Doctor looks at on MySQL and MariaDB. It is a copy.
//
// In commands {SET} is SET PERSIST on MySQL and SET GLOBAL on MariaDB, where the option file must say it too.
func MySQL() []Entry {
	return []Entry{
		{
			ID: "RL101", Title: "version of the server", Look: "`VERSION()`, `@@version_comment`, `aurora_version`",
			Verdicts: []Verdict{
				{Fail, "older than MySQL 8.0 or MariaDB 10.6, or another product that speaks the protocol (TiDB, Vitess, PlanetScale)", "Locks need SKIP LOCKED as MySQL and MariaDB have it. Use MySQL 8.0 or newer, or MariaDB 10.6 or newer.", ""},
				{Info, "Amazon Aurora", "Use the address of the writer (the cluster endpoint). A reader endpoint is read-only, and an instance endpoint does not follow a failover.", ""},
			},
		},
		{
			ID: "RL102", Title: "the server takes writes", Look: "`read_only`, `innodb_read_only`, `super_read_only`, `offline_mode`; MySQL: `READ ONLY` of the schema; `transaction_read_only`, `tx_read_only`",
			Verdicts: []Verdict{
				{Fail, "one of them is on", "No lock can be taken: the server is a standby, or somebody made it or the schema read-only. Name the primary in the address. Run the command only if this is the primary.", "{mend}"},
				{Warn, "`transaction_read_only` or `tx_read_only` is on", "Transactions are read-only by default, so your own cannot write under a guard, and MarkRun fails. RL163 says whether the library's connections are refused too.", "{mend}"},
			},
		},
		{
			ID: "RL103", Title: "commits survive a crash of the server", Look: "`innodb_flush_log_at_trx_commit`",
			Verdicts: []Verdict{
				{Fail, "not 1", "A crash of the server forgets the last second of commits, and with it who holds a lock: a key is granted twice, and tokens go back.", "{SET} innodb_flush_log_at_trx_commit=1"},
				{Warn, "not 1, on a node of Galera", "A commit is safe only while one node of the cluster stays up. If all go down together the last second is lost, and with it who holds a lock.", "{SET} innodb_flush_log_at_trx_commit=1"},
			},
		},
		{
			ID: "RL104", Title: "default isolation level", Look: "`transaction_isolation`, `tx_isolation`",
			Verdicts: []Verdict{
				{Warn, "SERIALIZABLE", "Plain reads in your guarded transactions lock rows, and deadlocks follow. The library's own connections set another level and are not affected.", "{SET} {variable}='REPEATABLE-READ'"},
			},
		},
		{
			ID: "RL105", Title: "deadlock detection", Look: "`innodb_deadlock_detect`, `innodb_lock_wait_timeout`",
			Verdicts: []Verdict{
				{Warn, "off", "If two transactions with LockTx or a guard wait for each other, both wait until innodb_lock_wait_timeout is over. With detection the server undoes one of them at once.", "{SET} innodb_deadlock_detect=ON"},
			},
		},
		{
			ID: "RL106", Title: "idle connections stay open", Look: "`wait_timeout`; MariaDB: `idle_transaction_timeout`, `idle_readonly_transaction_timeout`, `idle_write_transaction_timeout`",
			Verdicts: []Verdict{
				{Warn, "`wait_timeout` below 60 s", "The server closes connections that the library keeps for its next statement, so the library has to open them again and again.", "{SET} wait_timeout=28800"},
				{Fail, "MariaDB with `SelectForUpdate`: a transaction that is idle for less than the TTL is ended", "A lock of SelectForUpdate is an open transaction. A holder that stands still for longer than this loses its key before its TTL is over.", "SET GLOBAL {variable}=0"},
			},
		},
		{
			ID: "RL107", Title: "time limit of statements", Look: "MySQL: `max_execution_time`; MariaDB: `max_statement_time`",
			Verdicts: []Verdict{
				{Warn, "2 s or less", "The server ends statements that wait for a lock before the library does. The library takes that for a busy server.", "{SET} {variable}=0"},
			},
		},
		{
			ID: "RL108", Title: "the binary log survives a crash of the machine", Look: "`log_bin`, `sync_binlog`",
			Verdicts: []Verdict{
				{Warn, "`log_bin` is on and `sync_binlog` not 1", "After a power cut the server undoes commits that its binary log has not got: a key can be granted twice.", "{SET} sync_binlog=1"},
				{Fail, "the same, and replicas are seen", "After a power cut the source undoes commits that its binary log has not got, and replicas no longer have the same commits: a key can be granted twice, and replication breaks.", "{SET} sync_binlog=1"},
			},
		},
		{
			ID: "RL109", Title: "pages survive a crash", Look: "`innodb_doublewrite`, status `Innodb_redo_log_enabled`",
			Verdicts: []Verdict{
				{Fail, "the redo log is off", "A crash of the server loses the database. Only the loading of data should run with the redo log off.", "ALTER INSTANCE ENABLE INNODB REDO_LOG"},
				{Warn, "`innodb_doublewrite` is off", "A power cut in the middle of a write can leave half a page, which makes the lock tables unreadable. Only some file systems prevent that.", "innodb_doublewrite=ON in the option file, and a restart"},
			},
		},
		{
			ID: "RL110", Title: "privileges on the lock tables", Look: "statements that change no row, for each table: `SELECT`, `INSERT … SELECT … WHERE 1=0`, `UPDATE … WHERE 1=0`, `DELETE … WHERE 1=0`",
			Verdicts: []Verdict{
				{Fail, "one is denied", "Locks need all four privileges on each of their tables.", "GRANT SELECT, INSERT, UPDATE, DELETE ON `{database}`.{table} TO {user}"},
			},
		},
		{
			ID: "RL111", Title: "the user may create tables", Look: "with `Options.Migrate`: `CREATE TABLE IF NOT EXISTS` of a table that is there",
			Verdicts: []Verdict{
				{Info, "denied", "Only Migrate needs it. Run Migrate as another user, or grant the privilege while it runs.", "GRANT CREATE ON `{database}`.* TO {user}"},
			},
		},
		{
			ID: "RL112", Title: "KILL QUERY works", Look: "one session waits in `SLEEP`, another ends its statement", Needs: "two connections at once, and Options.ReadOnly off",
			Verdicts: []Verdict{
				{Warn, "the statement is not ended", "A statement that waits behind somebody's transaction ends after a second instead of after 50 ms. To end one's own sessions takes no privilege, so most likely there is a proxy, whose session numbers are not the server's.", ""},
			},
		},
		{
			ID: "RL113", Title: "GET_LOCK works", Look: "one session takes a named lock, another must not get it", Needs: "two connections at once, and Options.ReadOnly off",
			Verdicts: []Verdict{
				{Warn, "it is refused, or both sessions get it", "Locks work, and the order of waiting programs is kept. But a named lock cannot wake the next program here, so it finds a released key some milliseconds later. Set Options.WakeupConns to -1 to save the connections.", ""},
			},
		},
		{
			ID: "RL114", Title: "tables for Once and LockTx", Look: "the same statements as RL110, for `rowlock_run` and `rowlock_tx`",
			Verdicts: []Verdict{
				{Warn, "one is missing, or denied", "Locks work without these tables. But Once, MarkRun, and rowlock run with --run or --period need rowlock_run, and LockTx needs rowlock_tx.", "{mend}"},
			},
		},
		{
			ID: "RL120", Title: "the lock tables are there", Look: "a read of all columns of each table",
			Verdicts: []Verdict{
				{Fail, "a table is missing", "No lock can be taken before the tables are there.", "rowlock migrate --up"},
			},
		},
		{
			ID: "RL121", Title: "nothing is attached to the lock tables", Look: "`information_schema.TRIGGERS`, `REFERENTIAL_CONSTRAINTS`, `PARTITIONS`", Needs: "TRIGGER on the lock tables, granted to the account itself and not by a role",
			Verdicts: []Verdict{
				{Fail, "a trigger on INSERT or UPDATE", "The trigger hides the number by which an acquire learns that it has the key. So acquires fail with \"held for up to 0s longer\", or return a token of 0.", "{remove}"},
				{Warn, "a trigger on DELETE, a foreign key or partitions", "Each statement of the locks sets it off, renewals too. It makes them slower, locks more rows, or makes them fail.", "{remove}"},
			},
		},
		{
			ID: "RL122", Title: "dead rows", Look: "rows that ended more than two days ago, among the first 100000",
			Verdicts: []Verdict{
				{Warn, "more than 1000", "Nobody removes the rows of keys that are no longer used. Either all programs have a negative Options.ReapInterval, or the user may not DELETE. Locks stay fast, but the table grows.", "rowlock reap --yes --older 48h"},
			},
		},
		{
			ID: "RL123", Title: "the lock tables have the layout of this version", Look: "`information_schema.COLUMNS` and `STATISTICS`: types, collations and nullability of the columns, the unique indexes; also of the tables of runs and of `LockTx`, if they are there",
			Verdicts: []Verdict{
				{Fail, "a column is missing or of another type, a column of somebody else's needs a value, or a unique index is not as the migration makes it", "Another version of rowlock made the table, or a tool changed it when it copied the schema. If the table belongs to another program, set Options.Prefix to a name that is free. A wider type and the character set of the table do no harm.", "{mend}"},
			},
		},
		{
			ID: "RL124", Title: "storage engine of the lock tables", Look: "`information_schema.TABLES`",
			Verdicts: []Verdict{
				{Fail, "not InnoDB", "This engine has no row locks and no transactions, so two programs can hold one key.", "ALTER TABLE {table} ENGINE=InnoDB"},
			},
		},
		{
			ID: "RL125", Title: "no scheduled event touches the lock tables", Look: "`information_schema.EVENTS`: enabled ones whose text names a lock table", Needs: "EVENT on the schema, granted to the account itself and not by a role",
			Verdicts: []Verdict{
				{Warn, "there is one", "If the event deletes or changes rows it ends locks that are held, and tokens go back: two programs can hold one key. See what it does with SHOW CREATE EVENT. To remove dead rows use Options.ReapInterval or rowlock reap.", "DROP EVENT {event}"},
			},
		},
		{
			ID: "RL130", Title: "free connections", Look: "`max_connections`, `max_user_connections`, status `Threads_connected`; needed are those of `Options.Programs` programs",
			Verdicts: []Verdict{
				{Warn, "fewer are free than the programs may open", "A program that gets no connection cannot renew, and loses its locks.", "{raise}"},
			},
		},
		{
			ID: "RL131", Title: "size of a statement", Look: "`max_allowed_packet` of the session",
			Verdicts: []Verdict{
				{Warn, "below 1 MiB", "One statement renews hundreds of locks. With such a small packet it takes several.", "{SET} max_allowed_packet=67108864"},
			},
		},
		{
			ID: "RL132", Title: "refused connections", Look: "status `Connection_errors_max_connections`, at the beginning and at the end",
			Verdicts: []Verdict{
				{Warn, "it has risen meanwhile", "The server refuses connections. A program that cannot renew for long enough loses its locks.", "{SET} max_connections={connections}"},
				{Info, "it is above 0, since the start of the server", "The server has refused connections before. RL130 says whether that may happen again.", ""},
			},
		},
		{
			ID: "RL133", Title: "hourly limits of the account", Look: "`SHOW CREATE USER` of the own account: `MAX_QUERIES_PER_HOUR`, `MAX_UPDATES_PER_HOUR`, `MAX_CONNECTIONS_PER_HOUR`",
			Verdicts: []Verdict{
				{Warn, "one is set", "When the limit is used up the server refuses this account until the hour is over: all its locks are lost, and no new ones can be taken. To hold a lock takes 360 updates an hour with a TTL of 30 s. To wait for one takes up to some thousand queries.", "ALTER USER {user} WITH MAX_QUERIES_PER_HOUR 0 MAX_UPDATES_PER_HOUR 0 MAX_CONNECTIONS_PER_HOUR 0"},
			},
		},
		{
			ID: "RL140", Title: "kind of cluster", Look: "what `Store.Cluster` says: see [clusters](guides/clusters.md)",
			Verdicts: []Verdict{
				{Info, "always", "What holds after a failover: {promised}.", ""},
			},
		},
		{
			ID: "RL141", Title: "replicas have each acknowledged commit", Look: "sessions that receive the binary log, without semi-synchronous replication; filters of the binary log (`SHOW BINARY LOG STATUS`, `SHOW MASTER STATUS`) and of a replica (`replicate_do_db` and the like; MySQL: `performance_schema.replication_applier_global_filters`)", Needs: "PROCESS, REPLICATION CLIENT (MariaDB: BINLOG MONITOR)",
			Verdicts: []Verdict{
				{Fail, "a filter leaves the lock tables out, and there is a cluster or a replica", "Replicas never get the locks, whatever they acknowledge. After a failover all keys are free, and two programs hold one. Remove binlog-do-db, binlog-ignore-db and the replicate filters from the option files of all servers (on MySQL CHANGE REPLICATION FILTER empties the latter), and make the replicas anew.", ""},
				{Info, "a filter leaves the lock tables out, and no replica is seen", "A replica would never get the locks. Remove the filter before you add one.", ""},
				{Warn, "there is one", "A replica gets a commit only after it was acknowledged. If the replica is promoted a key can be granted twice, and tokens go back: use semi-synchronous replication or Group Replication. If it only serves reads, nothing is wrong.", ""},
			},
		},
		{
			ID: "RL142", Title: "one primary of the group", Look: "`group_replication_single_primary_mode`",
			Verdicts: []Verdict{
				{Fail, "off, with `SelectForUpdate`", "All members take writes, but row locks are local to each, so a key would be granted twice. The library refuses this, unless Options.SingleWriter says that a proxy leads to one member only.", "SELECT group_replication_switch_to_single_primary_mode()"},
				{Warn, "off, with the other strategies", "Exclusive locks work. But guards, InTx, Once, MarkRun, LockTx, Shared and Slots need one writable member, because row locks are local to each.", "SELECT group_replication_switch_to_single_primary_mode()"},
			},
		},
		{
			ID: "RL143", Title: "one writer in Galera", Look: "`wsrep_on`, the strategy, and `Options.SingleWriter`",
			Verdicts: []Verdict{
				{Fail, "`SelectForUpdate` without `Options.SingleWriter`", "All nodes take writes, but row locks are local to each, so a key would be granted twice. The library refuses this. Use VersionColumn, or set Options.SingleWriter if a proxy leads to one node only.", ""},
				{Warn, "`SelectForUpdate` with `Options.SingleWriter`, the other strategies without it", "Row locks are local to a node, so guards, InTx, Once, MarkRun, LockTx, Shared, Slots and SelectForUpdate need one writable node. Make sure that the proxy leads to one node only, and cuts connections to the node before (in HAProxy: on-marked-down shutdown-sessions). Then set Options.SingleWriter, which ends this warning with VersionColumn and UniqueInsert. Other locks do not need this.", ""},
				{Info, "the other strategies with `Options.SingleWriter`", "Guards, InTx, Once, MarkRun, LockTx, Shared and Slots are safe only if the proxy leads the program to one node, and cuts connections to the node before.", ""},
			},
		},
		{
			ID: "RL144", Title: "time-out of semi-synchronous replication", Look: "`rpl_semi_sync_source_timeout`, `rpl_semi_sync_master_timeout`",
			Verdicts: []Verdict{
				{Warn, "less than a day", "After the time-out commits no longer wait for a replica. A failover forgets such commits, and a key can be granted twice.", "{SET} {variable}=4294967295"},
			},
		},
		{
			ID: "RL145", Title: "when semi-synchronous replication waits", Look: "`rpl_semi_sync_source_wait_point`, `rpl_semi_sync_source_wait_no_replica`; older, and on MariaDB: `rpl_semi_sync_master_wait_point`, `rpl_semi_sync_master_wait_no_slave`",
			Verdicts: []Verdict{
				{Fail, "not AFTER_SYNC", "Other sessions see a commit before a replica has it. If a failover takes the commit back, what they saw was wrong: a key can be granted twice.", "{SET} {variable}=AFTER_SYNC"},
				{Warn, "`wait_no_replica` (`wait_no_slave`) is OFF", "While too few replicas are connected commits do not wait for one, whatever the time-out is. A failover forgets such commits, and a key can be granted twice.", "{SET} {variable}=ON"},
			},
		},
		{
			ID: "RL146", Title: "consistency of the group", Look: "`group_replication_consistency`",
			Verdicts: []Verdict{
				{Fail, "EVENTUAL", "A new primary answers before it has applied what the old one acknowledged, so a key can be granted twice.", "{SET} {variable}=BEFORE_ON_PRIMARY_FAILOVER"},
			},
		},
		{
			ID: "RL147", Title: "members without a majority", Look: "`group_replication_unreachable_majority_timeout`, `group_replication_autorejoin_tries`",
			Verdicts: []Verdict{
				{Fail, "both above 0", "Members that lose the majority leave the group. One that comes back can begin a group of its own, without commits that were acknowledged, and a key can be granted twice.", "{SET} group_replication_unreachable_majority_timeout=0"},
			},
		},
		{
			ID: "RL148", Title: "the server follows no other", Look: "`SHOW REPLICA STATUS`, of a server that takes writes", Needs: "REPLICATION CLIENT (MariaDB: REPLICA MONITOR)",
			Verdicts: []Verdict{
				{Warn, "it is a replica too", "Two servers take writes: locks that were taken on the source arrive here later, and overwrite what was granted here. Name the source in the address. If this is the primary now, and its old settings were left, run the command.", "STOP REPLICA; RESET REPLICA ALL, if this is the primary now"},
			},
		},
		{
			ID: "RL149", Title: "the node can take locks", Look: "Galera: `wsrep_cluster_status`, `wsrep_local_state_comment`, `wsrep_ready`; Group Replication: the members of the group",
			Verdicts: []Verdict{
				{Fail, "no", "No lock can be taken here: the node is cut off from the others, or not in step with them, or not the primary. On a node of Galera the doctor stops here.", ""},
			},
		},
		{
			ID: "RL150", Title: "transactions open for long", Look: "`information_schema.INNODB_TRX`, without the sessions of `SelectForUpdate`: those that lock rows and are open for more than 60 s. The server renews that table only when nobody read it for 0.1 s", Needs: "PROCESS",
			Verdicts: []Verdict{
				{Warn, "there is one", "While it is open nobody else gets the keys that it guards or locks, and the server keeps old versions of all rows. See what {whose} does, and end it if nobody needs it. A prepared XA branch belongs to no session: XA RECOVER lists the branches, and XA ROLLBACK or XA COMMIT ends one, as its coordinator has decided.", "{end}"},
			},
		},
		{
			ID: "RL160", Title: "clock", Look: "`UTC_TIMESTAMP(6)` between two looks at our clock, the narrowest of nine",
			Verdicts: []Verdict{
				{Info, "always", "Locks use only the database's clock. The difference matters only to people who read its times.", ""},
			},
		},
		{
			ID: "RL161", Title: "latency of a renewal", Look: "a lock of a key of our own is taken, renewed and released `Options.Samples` times; the 99th percentile counts", Needs: "Options.ReadOnly off, and tables that work",
			Verdicts: []Verdict{
				{Fail, "more than a sixth of the TTL", "A renewal takes {renewal}. If one fails there is no time for a second, and the lock is lost. Use a TTL of {need} or more, or a database that is nearer.", ""},
				{Warn, "more than a twentieth of the TTL", "A renewal takes {renewal}: use a TTL of {need} or more.", ""},
			},
		},
		{
			ID: "RL162", Title: "TTL", Look: "the TTL against the latency of renewals and the time of a failover: TTL ≥ 1.77 · (failover + 2 · renewal)", Needs: "Options.ReadOnly off, and tables that work",
			Verdicts: []Verdict{
				{Warn, "shorter than that", "A failover of {failover} makes all holders lose their locks. Use a TTL of {sane} or more. The price: after a crash of a holder its keys stay taken for that long.", ""},
			},
		},
		{
			ID: "RL163", Title: "a lock can be taken", Look: "the same lock of a key of our own; and whatever was refused of the statements that are tried for RL110 and RL120", Needs: "Options.ReadOnly off, and tables that work",
			Verdicts: []Verdict{
				{Fail, "it is refused, or has no answer in time", "A lock cannot be taken, renewed and released here. The answer says why.", ""},
			},
		},
		{
			ID: "RL170", Title: "ProxySQL", Look: "`PROXYSQL INTERNAL SESSION`, which servers do not know",
			Verdicts: []Verdict{
				{Info, "it answers", "ProxySQL must send all statements on the lock tables to the writer, reads too. If it shares sessions (multiplexing), see RL171.", ""},
			},
		},
		{
			ID: "RL171", Title: "a connection is one session", Look: "`CONNECTION_ID()` on three connections in turn", Needs: "two connections at once",
			Verdicts: []Verdict{
				{Fail, "with `SelectForUpdate`: the number changes, or two connections have one", "A proxy shares sessions among clients (multiplexing). A lock of SelectForUpdate is a session, so another client can end it. Switch multiplexing off for this user, or use VersionColumn.", ""},
				{Info, "with the other strategies: the same", "A proxy shares sessions among clients (multiplexing). Locks are rows, so they work. But KILL does not end statements that wait, and named locks wake nobody: see RL112 and RL113.", ""},
			},
		},
		{
			ID: "RL172", Title: "a connection leads to one server", Look: "`@@hostname`, `@@port` and `@@server_id` on three connections in turn", Needs: "two connections at once",
			Verdicts: []Verdict{
				{Fail, "different servers answer", "A proxy spreads statements over several servers. A replica shows old locks, and two servers that take writes grant a key twice. Send all statements of this user to the writer.", ""},
			},
		},
	}
}
