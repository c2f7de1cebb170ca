// Package check judges the history of a round: what clients did and saw while faults
// happened, as package history recorded it. It knows nothing of how locks are made.
//
// A checker never accuses wrongly: where a call has no answer, or an exception of
// docs/guarantees.md may be at work, it counts nothing. So each of them is blind to
// something, which its comment says.
//
//	shape     the history itself is whole
//	lock      P1: no two holders at once (a model of a lock, by Porcupine)
//	loss      P2: no holder believes in its lease after a newer grant
//	tokens    P3: tokens rise with the grants
//	stale     P4: no guarded commit after a newer grant
//	ledger    P4: what guarded commits wrote is there once, in the order of tokens
//	register  what tokens are for: a fenced register (a model, by Porcupine)
//	orphan    P6, P7: no hold lives for more than a TTL after the last client that knew of it
//	conflict  P8: no deadlock, lock wait, write conflict or duplicate key of the library's reached a caller
//	runs      P13: the effects of a run are there once, of the caller whose call said so; and the same under LockTx
//	reaped    P10: no hold was removed while its holder could trust it
//	kept      P15, P26: no lease was lost while the server and the holder's process were well
//
// # What is known of a hold
//
// A hold was granted at some moment between the Begin and the End of its Acquire.
// From then on it was held at least until the latest Begin of a call that said so: a
// Look or Renew that was OK, or the first Release if that was OK (it says Lost
// otherwise). When the key was free again is never known, so it may have been at any
// moment after that. Acquires that failed, or that nobody saw the end of, may have
// been executed; such a hold can only keep others out, so they are left out.
package check
