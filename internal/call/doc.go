// Package call is the only way from a client to its Store. It enters each statement
// into what Close waits for, gives it a deadline, checks the number of answers and
// turns the failure of a whole call into one answer for each of its entries. It keeps
// callers' contexts out, their values and their cancellation: a session in one would
// pull a statement into a transaction, and its end would cut a connection that others
// use and leave the outcome unknown.
//
// store.go has the calls of batches, ask.go those of a caller (Inspect, List,
// ForceRelease), deadline.go their contexts. A new method of the seam is called from here only.
package call
