// Package row keeps each lock as a row of a lease table: the strategies VersionColumn and
// UniqueInsert. A Table answers the steps of driver.Store in as few statements as there
// can be, over batches sorted by key; what waits for another transaction is ended, looked
// at without waiting, and sent again for the keys that nobody blocks (pinned.go).
//
// The statements are in statement.go, hints in hints.go, what a row says in row.go. Package
// session uses the rows too, and the statements that take no key.
//
// Readers and slots are rows of a second table, in a phase of the key: phase.go how one
// begins, began.go and join.go who comes in, slots.go which slot is free, share.go and
// sharebatch.go renewals and releases, gate.go how an exclusive attempt keeps new ones out,
// take.go how it gets the key then, guard.go what a guard locks.
//
// A column: the migration, layout.go, statement.go, row.go, and phase.go and gate.go, which
// name columns of their own; then statement.go and phasestatement.go of package session.
package row
