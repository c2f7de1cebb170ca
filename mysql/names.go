package mysqllock

// names are the names of the tables, quoted.
type names struct{ version, unique, session, sessionRow, tx, run string }

func newNames(prefix string) names {
	name := func(n string) string { return "`" + prefix + "_" + n + "`" }
	return names{version: name("version"), unique: name("unique"), session: name("session"), sessionRow: name("session_row"), tx: name("tx"), run: name("run")}
}
