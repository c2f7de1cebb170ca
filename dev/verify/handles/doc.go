// Package handles tests that LockTx, Guard and MarkRun work inside transactions that
// other libraries began: through the handle that gorm, sqlc, bun and ent give for
// raw statements. It has tests only.
package handles
