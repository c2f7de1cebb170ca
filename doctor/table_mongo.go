package doctor

// Mongo is the table of what a Doctor looks at on MongoDB. It is a copy.
func Mongo() []Entry {
	const monitor = "the role clusterMonitor"
	return []Entry{
		{
			ID: "RL201", Title: "server", Look: "`hello`, and an expression that only MongoDB 5.1 or newer knows (`$tsSecond`)",
			Verdicts: []Verdict{
				{Fail, "older than MongoDB 5.1, standalone, or another product that speaks the protocol (DocumentDB, Cosmos DB)", "Locks need the clock of a replica set for tokens, its transactions for guards and its numbered writes for undo: use a replica set (one node is enough for development) or a sharded cluster of MongoDB 5.1 or newer.", ""},
			},
		},
		{
			ID: "RL202", Title: "takes writes", Look: "`hello`: `isWritablePrimary`",
			Verdicts: []Verdict{
				{Fail, "no", "The address leads to a secondary, or there is no primary now: no lock can be taken. Name all members and the replica set in the URI, without directConnection.", ""},
			},
		},
		{
			ID: "RL203", Title: "a majority is durable", Look: "`replSetGetConfig`: `writeConcernMajorityJournalDefault`", Needs: monitor,
			Verdicts: []Verdict{
				{Fail, "false", "A write counts as acknowledged before it is in a journal: if the members crash together it is forgotten, and with it who holds a lock.", "cfg = rs.conf(); cfg.writeConcernMajorityJournalDefault = true; rs.reconfig(cfg)"},
			},
		},
		{
			ID: "RL204", Title: "storage", Look: "`serverStatus.storageEngine`: `name`, `persistent`", Needs: monitor,
			Verdicts: []Verdict{
				{Fail, "not persistent (inMemory, ephemeralForTest)", "After a restart the member knows no lock: keys are granted twice. Use WiredTiger.", ""},
			},
		},
		{
			ID: "RL205", Title: "members", Look: "`replSetGetConfig`: arbiters, votes, delays", Needs: monitor,
			Verdicts: []Verdict{
				{Warn, "an arbiter, two votes, or a delayed member with a vote", "Every grant waits for a majority of the members that store data. With an arbiter, or with two members, one that is down stops all locks; a delayed member that is needed for the majority makes each grant wait. Use three members with data.", ""},
			},
		},
		{
			ID: "RL206", Title: "state of the members", Look: "`replSetGetStatus`: members with a vote that do not answer or are not in service", Needs: monitor,
			Verdicts: []Verdict{
				{Warn, "there is one", "If as many more fail as the majority allows, no lock can be taken or renewed.", ""},
			},
		},
		{
			ID: "RL207", Title: "lag of the majority", Look: "`replSetGetStatus`: how far the member that completes the majority is behind", Needs: monitor,
			Verdicts: []Verdict{
				{Warn, "more than a second", "Every grant, renewal and release waits until a majority has it.", ""},
			},
		},
		{
			ID: "RL208", Title: "life of a transaction", Look: "`transactionLifetimeLimitSeconds`", Needs: monitor,
			Verdicts: []Verdict{
				{Warn, "more than 60", "A guarded transaction whose program has died pins its key for as long, unless the next holder can end its session (RL212).", `db.adminCommand({"setParameter": 1, "transactionLifetimeLimitSeconds": 60})`},
			},
		},
		{
			ID: "RL209", Title: "default write concern", Look: "`getDefaultRWConcern`", Needs: monitor,
			Verdicts: []Verdict{
				{Warn, "not majority", "The library asks for the majority itself. But a transaction of your own with a guard, which takes the default, can be undone by a failover after it was acknowledged.", `db.adminCommand({"setDefaultRWConcern": 1, "defaultWriteConcern": {"w": "majority"}, "writeConcern": {"w": "majority"}})`},
			},
		},
		{
			ID: "RL210", Title: "privileges on the collections", Look: "`connectionStatus` with `showPrivileges`",
			Verdicts: []Verdict{
				{Fail, "find, insert, update or remove is missing on one of them", "Locks need these four on each of their collections. The command grants more, in the whole database; a role of your own with just these is enough.", `db.getSiblingDB("{userdb}").runCommand({"grantRolesToUser": "{user}", "roles": [{"role": "readWrite", "db": "{database}"}]})`},
				{Info, "nobody is logged in", "Access control is off, or the URI has no user: whoever reaches the server can take and free locks.", ""},
			},
		},
		{
			ID: "RL211", Title: "the server answers", Look: "where nobody is logged in: a read of the collection",
			Verdicts: []Verdict{
				{Fail, "it refuses", "The server asks who it is, and the URI names no user: no lock can be taken. Name one, with its password, and authSource where that user is of another database.", ""},
			},
		},
		{
			ID: "RL212", Title: "may end sessions", Look: "`killSessions` of a session that nobody has", Needs: "Options.ReadOnly off",
			Verdicts: []Verdict{
				{Warn, "refused", "Where a process dies inside InTx or Once, the next holder waits until the server ends the transaction (RL208). The strict stable API refuses it: use a client without it.", ""},
			},
		},
		{
			ID: "RL213", Title: "waiters can be woken", Look: "`connectionStatus` with `showPrivileges`",
			Verdicts: []Verdict{
				{Warn, "changeStream is missing on the collection of the leases", "Locks work. But who waits for a key is not told that it is free, and asks again and again. The command lets the user read the whole database; changeStream on that one collection is enough.", `db.getSiblingDB("{userdb}").runCommand({"grantRolesToUser": "{user}", "roles": [{"role": "read", "db": "{database}"}]})`},
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
				{Warn, "more than 1000", "Nobody removes the documents of keys that are not used any more: all programs have Options.ReapInterval negative, or the user may not remove. Locks are as fast as ever; the collection grows.", "rowlock reap --older 48h"},
			},
		},
		{
			ID: "RL223", Title: "the collections have the layout of this version", Look: "kind and options of each collection, the index `name_1`, the indexes of others, the number of the layout",
			Verdicts: []Verdict{
				{Fail, "not so", "A capped collection drops locks, a TTL index deletes them, a validator or a unique index refuses them, and a view keeps none. A layout of another version: migrate, or use the release that wrote it.", "{mend}"},
			},
		},
		{
			ID: "RL230", Title: "free connections of the server", Look: "`serverStatus.connections.available`", Needs: monitor,
			Verdicts: []Verdict{
				{Warn, "fewer than 100", "A program that gets no connection renews nothing: its locks are lost.", ""},
			},
		},
		{
			ID: "RL231", Title: "size of the client's pool", Look: "the pool itself; `maxPoolSize` in `Options.URI`",
			Verdicts: []Verdict{
				{Fail, "fewer than 4", "A change stream, acquires and renewals go on at the same time: with fewer connections renewals wait for them.", ""},
				{Warn, "fewer than 13", "Locks use up to 13 connections at a time. The driver has no limit on the wait for one: a pool that is used up looks like a server that is dead.", ""},
			},
		},
		{
			ID: "RL232", Title: "direct connection", Look: "`directConnection` in `Options.URI`", Needs: "Options.URI",
			Verdicts: []Verdict{
				{Warn, "true", "The client stays with this member when another becomes primary: no lock can be taken or renewed after a failover.", ""},
			},
		},
		{
			ID: "RL233", Title: "read preference and write concern", Look: "`readPreference` and `w` in `Options.URI`", Needs: "Options.URI",
			Verdicts: []Verdict{
				{Warn, "not primary, or not majority", "The library's commands do not use them. But transactions of your own with a guard do: reads need the primary, and a commit that is not at majority can be undone by a failover.", ""},
			},
		},
		{
			ID: "RL234", Title: "name of the program", Look: "`appName` in `Options.URI`", Needs: "Options.URI",
			Verdicts: []Verdict{
				{Info, "none", "With a name the server's logs and currentOp say whose connection it is.", ""},
			},
		},
		{
			ID: "RL250", Title: "old transactions", Look: "`$currentOp` with idle sessions: transactions that are open for more than 60 s", Needs: "the privilege inprog (" + monitor + ")",
			Verdicts: []Verdict{
				{Warn, "there is one", "While it is open, a key that it guards stays pinned. Look what it does, and end it if nobody misses it.", `db.adminCommand({"killAllSessionsByPattern": [{"lsid": {"id": UUID("{id}"), "uid": BinData(0, "{uid}")}}]})`},
			},
		},
		{
			ID: "RL260", Title: "clock", Look: "`hello.localTime` between two looks at our clock, the narrowest of nine",
			Verdicts: []Verdict{
				{Info, "always", "Locks use the database's clock alone; the difference matters to who reads its times.", ""},
			},
		},
		{
			ID: "RL261", Title: "latency of a renewal", Look: "a lock of a key of our own is taken, renewed and released `Options.Samples` times; the 99th percentile counts", Needs: "Options.ReadOnly off, and collections that work",
			Verdicts: []Verdict{
				{Fail, "more than a sixth of the TTL", "A renewal takes {renewal}: one that fails leaves no time for a second, and the lock is lost. Use a TTL of {need} or more, or a database that is nearer.", ""},
				{Warn, "more than a twentieth of the TTL", "A renewal takes {renewal}: use a TTL of {need} or more.", ""},
			},
		},
		{
			ID: "RL262", Title: "TTL", Look: "the TTL against the latency of renewals and the time of a failover (`electionTimeoutMillis` and two seconds, where it can be seen): TTL ≥ 1.77 · (failover + 2 · renewal)", Needs: "Options.ReadOnly off, and collections that work",
			Verdicts: []Verdict{
				{Warn, "shorter than that", "A failover of {failover} makes all holders lose their locks. Use a TTL of {sane} or more; a crash of a holder then keeps its keys taken for as long.", ""},
			},
		},
		{
			ID: "RL263", Title: "a lock can be taken", Look: "the same lock of a key of our own", Needs: "Options.ReadOnly off, and collections that work",
			Verdicts: []Verdict{
				{Fail, "it is refused, or has no answer in time", "No lock can be taken, renewed and released here: the answer says why.", ""},
			},
		},
	}
}
