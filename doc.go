// Package rowlock gives a program distributed locks in the database it already
// has: MySQL or MariaDB (package mysqllock, in folder mysql) and MongoDB (package
// mongolock, in folder mongo). No Redis, ZooKeeper or etcd is needed.
//
// # Model
//
// A lease is one hold of one key by one caller. The database grants it for a TTL
// and is the only authority: it decides by its own clock, and the row or document
// of a key is the lock. The client renews the lease at a third of the TTL.
//
// The client trusts a lease until its trust deadline: the start of the attempt
// that got it (or of the last renewal that was acknowledged) + TTL − margin, on
// the client's monotonic clock. From then on [Lease.Err] is not nil at every look,
// whatever the network or the server does, and the database cannot have given the
// key to another before. Work that must stop then should use [Lease.Context], or
// ask Err before each step.
//
// A token ([Lease.Token]) is strictly larger for each next hold of a key. A
// resource that remembers the largest token it has seen can refuse a holder that
// was frozen and came back.
//
// # What happens when things fail
//
// A reply that never came is neither success nor refusal. The client takes such an
// attempt back in the background by its hold ID, until it cannot take effect any
// more. A failed renewal is tried again for as long as the trust lasts. A program
// that dies leaves a hold that ends with its TTL. A release is sent even when its
// context was cancelled.
//
// # What is not promised
//
// A program can stand still at any moment (garbage collection, a frozen virtual
// machine) and go on after its lease ended without knowing: between a look at Err
// and the write that follows it. Only a token that the written resource checks, or
// a write in the lock's own database in a guarded transaction, closes that gap.
// There is no order among programs that wait without Fair. Two strategies, tables or databases
// are two lock spaces. The clock of a database that steps forward by more than the
// margin ends leases early without the signal. An operator's ForceRelease is seen
// by the holder at its next renewal.
package rowlock
