/*
 * fence.pml: guarded transactions on MongoDB. P4.
 *
 * Kept: the lease document; the fence document, a separate one that a guard
 * writes inside its transaction and that an acquire of a fenced key raises outside
 * of any; the flag in the lease document that tells an acquire whether it must;
 * write conflicts (a transaction that would write what changed after its
 * snapshot, or what another open one has written, is aborted); pinned; sessions
 * that end; clients that ask for Guarded() and clients that do not.
 *
 * Left out: time. A lease may expire at any moment. Before an acquire returns it
 * looks at the trust deadline; that this is enough is P2 (lease.pml), so here it
 * returns only while the document is its own.
 *
 * P4 counts from the moment the acquire returned to its caller: before, the key is
 * pinned.
 * Wrong variants: LATE_FENCE, READ_GUARD, FLAG_LOST.
 */
#define CLIENTS 3
#define GRANTS  5
#define NOBODY  CLIENTS

byte doc_hold = NOBODY; byte doc_token; bool fenced;
bool doc_expired;
byte fence; bool stale[2] = true; /* stale: the fence has changed since the snapshot of an open transaction */
byte writer = NOBODY;           /* whose open transaction has written the fence */
byte told;                      /* the largest token that an acquire returned */
byte token[CLIENTS];

#define promise(ok, words) if :: ok :: else -> printf(words); assert(false) fi

proctype Client(byte c; bool guarded) {
	byte t;
	do
	:: d_step { /* take the document */
			(doc_hold == NOBODY || doc_expired) && doc_token < GRANTS ->
			doc_token++; t = doc_token; doc_hold = c; doc_expired = false; token[c] = 0;
#ifdef FLAG_LOST
			fenced = guarded;
#else
			fenced = fenced || guarded;
#endif
			printf("@ client %d: takes the lease document, token %d\n", c, t)
		}
#ifdef LATE_FENCE
		d_step { told = t; token[c] = t; printf("@ client %d: acquire returns, token %d\n", c, t) }
#endif
		if
		:: d_step { fenced && writer == NOBODY -> /* raise the fence */
				if :: fence < t -> fence = t; stale[0] = true; stale[1] = true :: else fi;
				printf("@ client %d: the fence is at %d\n", c, fence) }
		:: !fenced -> skip
		:: d_step { fenced && writer != NOBODY -> printf("@ client %d: pinned\n", c) }
			goto back
		fi;
#ifndef LATE_FENCE
		if
		:: d_step { doc_hold == c && doc_token == t && !doc_expired -> told = t; token[c] = t; printf("@ client %d: acquire returns, token %d\n", c, t) }
		:: goto back /* too late, or the reply was lost: undone */
		fi;
#endif
back:	atomic { /* released, undone, or nothing left of it */
			if :: doc_hold == c && doc_token == t -> doc_hold = NOBODY :: else fi;
			t = 0; printf("@ client %d: releases\n", c)
		}
	od
}

/* A transaction of a caller that has, or believes to have, a guarded lease. */
proctype Transaction(byte c) {
	byte t, seen; bool open;
	do
	:: d_step { token[c] != 0 -> t = token[c]; stale[c] = false; seen = fence; open = true; printf("@ client %d: begins a transaction for token %d\n", c, t) }
		if
#ifdef READ_GUARD
		:: d_step { seen == t -> printf("@ client %d: the guard reads its token in the fence\n", c) }
#else
		:: d_step { writer == NOBODY && !stale[c] && fence == t -> writer = c; printf("@ client %d: guard writes the fence of token %d\n", c, t) }
#endif
			do
			:: d_step { open ->
					printf("@ client %d: commits under token %d, told was %d\n", c, t, told);
					promise(told <= t, "@ P4 broken: a newer hold was returned\n");
					if :: writer == c -> writer = NOBODY; stale[0] = true; stale[1] = true :: else fi }
				break
			:: d_step { open -> open = false; if :: writer == c -> writer = NOBODY :: else fi; printf("@ server: ends the session of client %d\n", c) }
			:: !open -> break
			od
		:: skip /* lost, or a write conflict: aborted */
		fi;
		atomic { t = 0; seen = 0; stale[c] = true; open = false }
	od
}

active proctype Server() {
	do
	:: d_step { doc_hold != NOBODY && !doc_expired -> doc_expired = true; printf("@ server: the lease expires\n") }
	:: d_step { doc_hold != NOBODY && doc_expired -> doc_expired = false } /* a renewal that arrives in time */
	od
}

init {
	atomic {
		run Client(0, true); run Client(1, true); run Client(2, false);
		run Transaction(0); run Transaction(1) /* Guard on a lease without Guarded() is an error */
	}
}
