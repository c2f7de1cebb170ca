// Package workload makes histories: client processes that use locks in every way the
// library offers, and record each call with its reply.
//
// A client is a copy of this program in a process of its own (Main, Start), which can
// be killed and frozen. It opens one Store and one rowlock.Client for each lock space
// (a strategy on a server) and runs workers of several kinds in it:
//
//   - Hot workers fight with those of all other clients for a few keys: they hold for
//     up to twice the TTL, look, renew, commit to the key's ledger under a guard, write
//     to and read the key's fenced register, give waits up, leave leases to expire, and
//     often go on after they learnt that the lease is lost, as a broken program would.
//   - Others want keys in several modes, several keys at once, or keys in order (Fair); one
//     stands for election.
//   - Light workers take and release keys of their own client, which makes numbers: many
//     locks in each statement.
//   - With a long TTL keys are asked for at a steady pace too, which tells when locks can be had again.
//
// What a worker does is chosen by a generator with the seed of the round.
package workload
