// Package fault makes things go wrong for a round: on the network, in the client
// processes, in the server, in its tables. Each [Fault] lasts for a moment, heals
// what it did, and says beforehand what is promised meanwhile. Markdown is the
// table of them.
//
// A round makes an [Env] with [NewEnv], puts its clients behind the proxies of the
// Env, and calls Inject of random faults, several at once if it likes: those that
// would be in each other's way wait for each other.
//
//	e, err := fault.NewEnv(ctx, testenv.MySQL, 3, seed)
//	defer e.Close()
//	dsn := e.Proxies[0].DSN() // for the first client process
//	...
//	e.Clients, e.Spaces, e.TTL = ...
//	what, err := fault.For(e.Kind)[i].Inject(ctx, e)
//
// With the same seed the same calls of Inject, in the same order, draw the same
// numbers: how long, how many, which.
//
// # What is never promised less
//
// P4 holds through every fault: no guarded transaction commits after a newer hold
// of its key was granted. Where another promise has an exception, the fault says so,
// and docs/guarantees.md has it in its list.
package fault
