// Package check judges the history of a round: what clients did and saw while faults
// happened, as package history recorded it. It knows nothing of how locks are made.
//
// A checker never accuses wrongly: where a call has no answer, or an exception of
// docs/guarantees.md may be at work, it counts nothing. So each of them is blind to
// something, which its comment says.
//
//	shape     the history itself is whole
//	lock      P1, P16, P17: holds that exclude each other are not at once (a model of a lock with readers and slots, by Porcupine)
//	loss      P2: no holder believes in its lease after a newer grant that excludes it
//	tokens    P3, P20: tokens rise with the grants that exclude each other
//	stale     P4, P21: no guarded commit after a newer grant that excludes its own
//	ledger    P4, P21: what guarded commits wrote is there once, in the order of tokens; of slots for each
//	register  what tokens are for: a fenced register (a model, by Porcupine)
//	orphan    P6, P7: no hold lives for more than a TTL after the last client that knew of it
//	nobody    P6: a key that nobody has is not told to be held
//	conflict  P8: no deadlock, lock wait, write conflict or duplicate key of the library's reached a caller
//	runs      P13: the effects of a run are there once, of the caller whose call said so; and the same under LockTx
//	reaped    P10: no hold was removed while its holder could trust it
//	kept      P15, P26: no lease was lost while the server and the holder's process were well
//	slots     P17: slots have numbers below what their callers asked for
//	counted   P18: no more readers and slots than there are callers who can have them
//	turns     P19: exclusive callers and the others get their turns beside each other
//	phases    P20: readers that have a key at once have one token
//	guards    P21: a reader's guarded transaction saw what was committed before its phase, and nothing else
//	groups    P22: AcquireAll has all keys or none, and none waits for a key that nobody has
//	fair      P23, P29: with Fair nobody is passed by one who came later, without Fair no program in its turn
//	back      P27: a program gets locks again once its database serves
//	lead      P24: one leads at a time, and terms never fall
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
