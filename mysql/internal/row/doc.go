// Package row keeps each lock as a row of a lease table: the strategies VersionColumn and
// UniqueInsert. A Table answers the steps of driver.Store in as few statements as there
// can be, over batches sorted by key; what waits for another transaction is ended, looked
// at without waiting, and sent again for the keys that nobody blocks (pinned.go).
//
// The statements are in statement.go, hints in hints.go, what a row says in row.go. Package
// session uses the rows too, and the statements that take no key.
package row
