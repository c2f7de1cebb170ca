// Package guarded has the transactions under leases. It guards those of callers (Guard). It begins and
// commits those of the Store (InTx, Once). It marks runs in both (MarkRun).
//
// It is above the seam, because it knows rowlock's leases, by way of internal/guards. Only mysqllock imports
// it: there the methods of the same names say what each does.
package guarded
