package doctor

// Mongo is the table of what a Doctor looks at on MongoDB. It is a copy.
func Mongo() []Entry {
	const monitor = "the role clusterMonitor"
	return []Entry{
		{
			ID: "RL201", Title: "kind and version of the server", Look: "`hello`, and an expression that only MongoDB 5.1 or newer knows (`$tsSecond`)",
			Verdicts: []Verdict{
				{Fail, "older than MongoDB 5.1, standalone, or another product that speaks the protocol (DocumentDB, Cosmos DB)", "Locks need a replica set: its clock for tokens, its transactions for guards, its numbered writes for undo. Use a replica set (mongod --replSet rs0, then rs.initiate(); one node is enough for development) or a sharded cluster of MongoDB 5.1 or newer.", ""},
			},
		},
		{
			ID: "RL202", Title: "the server takes writes", Look: "`hello`: `isWritablePrimary`",
			Verdicts: []Verdict{
				{Fail, "no", "No lock can be taken: the address leads to a secondary, or there is no primary now. Name all members and the replica set in the URI, without directConnection.", ""},
			},
		},
		{
			ID: "RL203", Title: "a majority is durable", Look: "`replSetGetConfig`: `writeConcernMajorityJournalDefault`", Needs: monitor,
			Verdicts: []Verdict{
				{Fail, "false", "A write counts as acknowledged before it is in a journal. If the members crash together it is forgotten, and with it who holds a lock.", "cfg = rs.conf(); cfg.writeConcernMajorityJournalDefault = true; rs.reconfig(cfg)"},
			},
		},
		{
			ID: "RL204", Title: "the storage engine keeps data", Look: "`serverStatus.storageEngine`: `name`, `persistent`", Needs: monitor,
			Verdicts: []Verdict{
				{Fail, "not persistent (inMemory, ephemeralForTest)", "After a restart the member has forgotten all locks, and keys are granted twice. Use WiredTiger.", ""},
			},
		},
		{
			ID: "RL205", Title: "members of the replica set", Look: "`replSetGetConfig`: arbiters, votes, delays", Needs: monitor,
			Verdicts: []Verdict{
				{Warn, "an arbiter, two votes, or a delayed member with a vote", "Every grant waits for a majority of the members that store data. With an arbiter, or with two members, all locks stop when one member is down. A delayed member that is needed for the majority makes each grant wait. Use three members with data.", ""},
			},
		},
		{
			ID: "RL206", Title: "state of the members", Look: "`replSetGetStatus`: members with a vote that do not answer or are not in service", Needs: monitor,
			Verdicts: []Verdict{
				{Warn, "there is one", "The replica set can survive fewer failures now. Without a majority no lock can be taken or renewed.", ""},
			},
		},
		{
			ID: "RL207", Title: "the majority is up to date", Look: "`replSetGetStatus`: how far the member that completes the majority is behind", Needs: monitor,
			Verdicts: []Verdict{
				{Warn, "more than a second", "Every grant, renewal and release waits until a majority has it, so locks are slow.", ""},
			},
		},
		{
			ID: "RL208", Title: "longest life of a transaction", Look: "`transactionLifetimeLimitSeconds`", Needs: monitor,
			Verdicts: []Verdict{
				{Warn, "more than 60", "If a program dies inside a guarded transaction, its key stays taken for up to this time, unless the next holder may end the session (RL212).", `db.adminCommand({"setParameter": 1, "transactionLifetimeLimitSeconds": 60})`},
			},
		},
		{
			ID: "RL209", Title: "default write concern", Look: "`getDefaultRWConcern`", Needs: monitor,
			Verdicts: []Verdict{
				{Warn, "not majority", "The library asks for the majority itself. But your own transactions with a guard use the default, and a failover can undo them after they were acknowledged.", `db.adminCommand({"setDefaultRWConcern": 1, "defaultWriteConcern": {"w": "majority"}, "writeConcern": {"w": "majority"}})`},
			},
		},
		{
			ID: "RL210", Title: "privileges on the collections", Look: "`connectionStatus` with `showPrivileges`",
			Verdicts: []Verdict{
				{Fail, "find, insert, update or remove is missing on one of them", "Locks need these four on each of their collections. The command grants more, and in the whole database. A role of your own with just these four is enough.", `db.getSiblingDB("{userdb}").runCommand({"grantRolesToUser": "{user}", "roles": [{"role": "readWrite", "db": "{database}"}]})`},
				{Info, "nobody is logged in", "Access control is off, or the URI has no user. Anyone who reaches the server can take and free locks.", ""},
			},
		},
		{
			ID: "RL211", Title: "the server answers", Look: "where nobody is logged in: a read of the collection",
			Verdicts: []Verdict{
				{Fail, "it refuses", "No lock can be taken: the server wants a login, and the URI names no user. Add a user with its password, and authSource if the user belongs to another database.", ""},
			},
		},
		{
			ID: "RL212", Title: "the user may end sessions", Look: "`killSessions` of a session that nobody has", Needs: "Options.ReadOnly off",
			Verdicts: []Verdict{
				{Warn, "refused", "If a program dies inside InTx or Once, the next holder waits until the server ends the transaction (RL208). The strict stable API refuses to end sessions: use a client without it.", ""},
			},
		},
		{
			ID: "RL213", Title: "observers are told at once", Look: "`connectionStatus` with `showPrivileges`",
			Verdicts: []Verdict{
				{Warn, "changeStream is missing on the collection of the leases", "Locks work, and waiting for them too. But Observe hears of a change up to a second later. The command lets the user read the whole database. changeStream on that one collection is enough.", `db.getSiblingDB("{userdb}").runCommand({"grantRolesToUser": "{user}", "roles": [{"role": "read", "db": "{database}"}]})`},
			},
		},
		{
			ID: "RL220", Title: "the collections are there", Look: "`listCollections`",
			Verdicts: []Verdict{
				{Fail, "one is missing", "No lock can be taken before the collections are there.", "rowlock migrate --up"},
			},
		},
		{
			ID: "RL222", Title: "dead documents", Look: "documents of keys that ended more than two days ago, among the first 100000",
			Verdicts: []Verdict{
				{Warn, "more than 1000", "Nobody removes the documents of keys that are no longer used. Either all programs have a negative Options.ReapInterval, or the user may not remove. Locks stay fast, but the collection grows.", "rowlock reap --yes --older 48h"},
			},
		},
		{
			ID: "RL223", Title: "the collections have the layout of this version", Look: "kind and options of each collection, the index `name_1`, the indexes of others, the number of the layout",
			Verdicts: []Verdict{
				{Fail, "not so", "A capped collection drops locks, a TTL index deletes them, a validator or a unique index refuses them, and a view keeps none. If another version of rowlock made the layout, migrate, or use that version.", "{mend}"},
			},
		},
		{
			ID: "RL230", Title: "free connections of the server", Look: "`serverStatus.connections.available`", Needs: monitor,
			Verdicts: []Verdict{
				{Warn, "fewer than 100", "A program that gets no connection cannot renew, and loses its locks.", ""},
			},
		},
		{
			ID: "RL231", Title: "size of the client's pool", Look: "the pool itself; `maxPoolSize` in `Options.URI`",
			Verdicts: []Verdict{
				{Fail, "fewer than 4", "Acquires, renewals and the change stream of Observe need a connection at the same time. With fewer than 4, renewals have to wait.", ""},
				{Warn, "fewer than 13", "Locks use up to 13 connections at a time. The driver waits for a free one without a limit, so a pool that is used up looks like a dead server.", ""},
			},
		},
		{
			ID: "RL232", Title: "direct connection", Look: "`directConnection` in `Options.URI`", Needs: "Options.URI",
			Verdicts: []Verdict{
				{Warn, "true", "The client stays with this member when another becomes primary. After a failover no lock can be taken or renewed.", ""},
			},
		},
		{
			ID: "RL233", Title: "read preference and write concern", Look: "`readPreference` and `w` in `Options.URI`", Needs: "Options.URI",
			Verdicts: []Verdict{
				{Warn, "not primary, or not majority", "The library's commands do not use them, but your own transactions with a guard do. Their reads need the primary, and a failover can undo a commit that is not at majority.", ""},
			},
		},
		{
			ID: "RL234", Title: "name of the program", Look: "`appName` in `Options.URI`", Needs: "Options.URI",
			Verdicts: []Verdict{
				{Info, "none", "With a name, the server's logs and currentOp say which program a connection belongs to.", ""},
			},
		},
		{
			ID: "RL235", Title: "time limit of statements", Look: "`timeoutMS` in `Options.URI`", Needs: "Options.URI",
			Verdicts: []Verdict{
				{Warn, "2 s or less", "The library's commands do not use it, but your own transactions with a guard do. If the key is pinned or the majority is slow, their statements and commits are cut off, and nobody knows whether such a commit took effect. Use 10 s or more, or a context for each call.", ""},
			},
		},
		{
			ID: "RL250", Title: "transactions open for long", Look: "`$currentOp` with idle sessions: transactions that are open for more than 60 s", Needs: "the privilege inprog (" + monitor + ")",
			Verdicts: []Verdict{
				{Warn, "there is one", "While it is open nobody else gets the keys that it guards. See what it does, and end it if nobody needs it.", `db.adminCommand({"killAllSessionsByPattern": [{"lsid": {"id": UUID("{id}"), "uid": BinData(0, "{uid}")}}]})`},
			},
		},
		{
			ID: "RL260", Title: "clock", Look: "`hello.localTime` between two looks at our clock, the narrowest of nine",
			Verdicts: []Verdict{
				{Info, "always", "Locks use only the database's clock. The difference matters only to people who read its times.", ""},
			},
		},
		{
			ID: "RL261", Title: "latency of a renewal", Look: "a lock of a key of our own is taken, renewed and released `Options.Samples` times; the 99th percentile counts", Needs: "Options.ReadOnly off, and collections that work",
			Verdicts: []Verdict{
				{Fail, "more than a sixth of the TTL", "A renewal takes {renewal}. If one fails there is no time for a second, and the lock is lost. Use a TTL of {need} or more, or a database that is nearer.", ""},
				{Warn, "more than a twentieth of the TTL", "A renewal takes {renewal}: use a TTL of {need} or more.", ""},
			},
		},
		{
			ID: "RL262", Title: "TTL", Look: "the TTL against the latency of renewals and the time of a failover (`electionTimeoutMillis` and two seconds, where it can be seen): TTL ≥ 1.77 · (failover + 2 · renewal)", Needs: "Options.ReadOnly off, and collections that work",
			Verdicts: []Verdict{
				{Warn, "shorter than that", "A failover of {failover} makes all holders lose their locks. Use a TTL of {sane} or more. The price: after a crash of a holder its keys stay taken for that long.", ""},
			},
		},
		{
			ID: "RL263", Title: "a lock can be taken", Look: "the same lock of a key of our own", Needs: "Options.ReadOnly off, and collections that work",
			Verdicts: []Verdict{
				{Fail, "it is refused, or has no answer in time", "A lock cannot be taken, renewed and released here. The answer says why.", ""},
			},
		},
	}
}
