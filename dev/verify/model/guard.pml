/*
 * guard.pml: guarded transactions on MySQL and MariaDB. P4, and P3 of the row.
 *
 * Kept: the row with its token, and the guard index entry (token, name) that a
 * locking read locks and that a takeover, a forced release and the reaper change;
 * clients whose guarded transaction goes on whatever becomes of the lease, and
 * whose end the library does not see; sessions that the server ends; a commit
 * that is on its way.
 *
 * Left out: time. A lease may expire at any moment, even at once, and the holder
 * needs not notice: P4 does not rest on clocks. Of a statement only the moment at
 * which it takes effect counts, and that can be any moment later.
 *
 * GRANTS bounds the run: grants and forced releases of the key.
 * Wrong variants: PLAIN_READ, ROW_GONE (the reaper forgets the token).
 */
#define CLIENTS 3
#define GRANTS  6
#define NOBODY  CLIENTS

byte row_hold = NOBODY;
bool row_free = true, row_there;
byte row_token;
bool locks[CLIENTS];       /* whose transaction has a shared lock on the guard entry of row_token */
byte newest;               /* the token of the newest grant */
byte clock;                /* what the clock gives: not below any token so far */
byte token[CLIENTS];       /* of the client's lease; 0: none. Not cleared when the lease is lost */

#define promise(ok, words) if :: ok :: else -> printf(words); assert(false) fi

#define unlocked (!locks[0] && !locks[1] && !locks[2])

#ifdef ROW_GONE
#define NEXT (row_token + 1)
#else
#define NEXT (clock + 1) /* the larger of the stored token + 1 and the clock */
#endif

proctype Client(byte c) {
	do
	:: d_step { /* a takeover; while another's guard is open it is answered: pinned */
			row_free && unlocked && clock < GRANTS ->
			promise(NEXT > newest, "@ P3 broken: an equal or larger token was granted before\n");
			newest = NEXT; clock = (newest > clock -> newest : clock);
			row_there = true; row_hold = c; row_free = false; row_token = newest; token[c] = newest;
			printf("@ client %d: granted, token %d\n", c, newest)
		}
	:: d_step { row_there && row_hold == c && row_free -> row_free = false; printf("@ client %d: renews before anybody has taken the key\n", c) }
	:: d_step { row_there && row_hold == c && !row_free && token[c] == row_token ->
			row_free = true; row_hold = NOBODY; token[c] = 0; /* waits for no guard, not even its own */
			printf("@ client %d: releases\n", c) }
	od
}

/* What a caller does with a lease it has, or believes to have. */
proctype Transaction(byte c) {
	byte t; bool open;
	do
	:: d_step { token[c] != 0 -> t = token[c]; open = true; printf("@ client %d: begins a transaction for token %d\n", c, t) }
		/* the guard */
		if
		:: d_step { row_there && row_token == t ->
#ifndef PLAIN_READ
				locks[c] = true;
#endif
				printf("@ client %d: guard sees token %d\n", c, t) }
			do
			:: d_step { open -> /* the commit arrives */
					printf("@ client %d: commits under token %d, the newest is %d\n", c, t, newest);
					promise(newest <= t, "@ P4 broken: a newer hold was granted\n");
					locks[c] = false }
				break
			:: d_step { open -> locks[c] = false; open = false; printf("@ server: ends the session of client %d\n", c) }
			:: d_step { !open -> printf("@ client %d: the commit finds no transaction\n", c) }
				break
			od
		:: d_step { !(row_there && row_token == t) -> printf("@ client %d: guard, lost: rolls back\n", c) }
		fi;
		atomic { t = 0; open = false }
	od
}

active proctype Server() {
	do
	:: d_step { !row_free -> row_free = true; printf("@ server: the lease of token %d expires\n", row_token) }
	:: d_step { row_there && !row_free && unlocked && clock < GRANTS -> /* forced release */
			clock++; row_token = clock; row_free = true; row_hold = NOBODY; printf("@ server: forced release\n") }
	:: d_step { row_there && row_free && unlocked -> row_there = false; row_hold = NOBODY; row_token = 0; printf("@ server: the row is reaped\n") }
	od
}

init { byte i; atomic { do :: i < CLIENTS -> run Client(i); run Transaction(i); i++ :: else -> break od } }
