package mysqllock

// names are the names of the tables, quoted.
type names struct{ version, share, unique, shareUnique, shareSession, session, sessionRow, tx, run string }

func newNames(prefix string) names {
	name := func(n string) string { return "`" + prefix + "_" + n + "`" }
	return names{version: name("version"), share: name("share"), unique: name("unique"), shareUnique: name("share_unique"), shareSession: name("share_session"), session: name("session"), sessionRow: name("session_row"), tx: name("tx"), run: name("run")}
}

// all are the names of all tables.
func (n names) all() []string {
	return []string{n.version, n.share, n.unique, n.shareUnique, n.shareSession, n.session, n.sessionRow, n.tx, n.run}
}
