// Package row keeps each exclusive lock as a row of a lease table: the strategies VersionColumn and
// UniqueInsert. It has the steps of driver.Store for exclusive requests and holds, in as few
// statements as there can be, over batches sorted by key; what waits for another transaction is
// ended, looked at without waiting, and sent again for the keys that nobody blocks (pinned.go).
//
// Its callers make whole calls of them: package share, which has readers and slots too, and
// package session, whose lease rows these are. Of readers and slots it knows one thing, which each
// answer about a key needs: that a key is in a phase, which its row says (PhaseMicros).
//
// The statements are in statement.go, hints in hints.go, what a row says in row.go. An Attempt
// (acquire.go) takes keys; a Batch (batch.go) renews and releases holds (renew.go, release.go), also
// those whose rows are in another table (holdrows.go). The other packages use the rows too.
//
// A column: the migration, layout.go, statement.go, row.go; linestatement.go and compareandset.go if a grant or a pass sets it; then
// table.go of package share for those of a phase, with phase.go, line.go and gate.go there, and statement.go and phasestatement.go of package session.
package row
