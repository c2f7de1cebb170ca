// Package share keeps readers and slots (Mode Shared and Slot) as rows of a second table, beside
// the keys' rows of package row. Its Table is what a Store uses of both: it answers each step of
// driver.Store, by the methods of package row for exclusive requests and holds, and by its own for the
// others. Package row does not import it: it knows of a key in a phase only that an exclusive
// attempt cannot have it (row.PhaseMicros). Package session uses it too.
//
// Readers and slots have a key in a phase: phase.go how one begins, began.go and join.go who
// comes in, slots.go which slot is free, rows.go and batch.go renewals and releases, line.go and take.go
// how an exclusive attempt gets the key, guard.go what a guard locks, holders.go who has a key. gate.go is
// for tables without lines: how an exclusive attempt keeps new ones out.
//
// A call for several keys may have requests of all modes. Their statements go one after the other on
// one connection: those of exclusive requests, the joins of readers and slots, then the takes of
// keys that are in a phase (acquire.go).
//
// A column: the migration, table.go, rows.go and jointext.go; phase.go and gate.go for the columns
// of the key's row that only phases need.
package share
