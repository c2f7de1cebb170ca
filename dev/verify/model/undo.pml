/*
 * undo.pml: when an attempt may be forgotten. P6, P7, and P2 of what it granted.
 *
 * Kept: one attempt after the other, each with a hold ID of its own; acquires and
 * undos that are late (up to one TTL on the way, then BOUND at a row lock) or lost,
 * answers likewise; a client that may stop between any two steps, so between
 * reading its clock and sending; rivals (another attempt of this client is one).
 *
 * Left out: renewals and the margin (lease.pml), tokens. How long a hold that
 * nobody knows of lasts is the row's expiry: at most one TTL after the server
 * executed its acquire, since nobody renews it. What is checked is the rest: once
 * the client has forgotten an attempt there is no hold of it, now or ever.
 *
 * Times are what is left or has passed, capped; the next attempt begins when no
 * statement of the last one is under way, and is named ME again. So nothing bounds
 * time or the number of attempts.
 *
 * TWICE: a store that sends a hold ID once more when the first was not answered.
 * ORDER: MongoDB, where attempt and undo are numbered writes of one session.
 * Wrong variants: REUSED, GIVES_UP, FROM_START, TOO_EARLY; with TWICE:
 * FIRST_SUCCESS, REFUSED; with ORDER: NO_BARRIER; with both: REFUSED.
 */
#ifndef TTL
#define TTL    2
#endif
#ifndef BOUND
#define BOUND  1
#endif
#define LATEST (TTL + BOUND) /* a statement takes effect within this of being sent, or never */
#define GONE   (LATEST + TTL) /* and what it granted has expired within this */

mtype = { NOBODY, ME, OLD, RIVAL } /* OLD: a hold of mine, when its attempt is forgotten and the next has begun */
mtype row_hold = NOBODY; bool row_live; byte row_left; /* not live or left 0: free */
#define row_free  (!row_live || row_left == 0)
#define row_mine  (row_hold == ME && !row_free)

mtype = { nothing, attempted, undone }
mtype number = nothing; /* ORDER: what the session of the attempt has executed */

mtype = { none, granted, held, found, missing }
typedef Statement { bool away; byte left; mtype answer = none }
Statement acquire[2], undo[2]; /* the first may be a ghost */

bool lease;     /* the caller has a lease of the attempt and has not noticed its end */
byte trust;     /* time to its trust deadline; the margin is 0: clocks are true here */
byte since;     /* time since the last sending, by a clock read after it */
bool forgotten = true;

inline send(s) { s.away = true; s.left = LATEST; s.answer = none }

/* ---- the network and the database ---- */

inline grant() { row_hold = ME; row_live = true; row_left = TTL }

inline do_acquire(s) {
	if
#ifdef ORDER
	:: number == undone -> printf("@ server: acquire is too old, refused for good\n")
#ifdef TWICE
	:: number == attempted -> s.answer = granted; printf("@ server: acquire was executed before, same answer\n")
#endif
	:: number == nothing && row_free -> number = attempted; grant(); s.answer = granted; printf("@ server: acquire, granted\n")
#else
	:: row_hold == ME && row_live -> s.answer = granted; printf("@ server: acquire, granted\n")
	:: !(row_hold == ME && row_live) && row_free -> grant(); s.answer = granted; printf("@ server: acquire, granted\n")
#endif
	:: else -> s.answer = held; printf("@ server: acquire, held\n") /* writes nothing, so it is not numbered either */
	fi
}

/* A row that shows the hold as released proves as well that the attempt came. */
inline do_undo(s) {
	s.answer = (row_hold == ME -> found : missing);
	if :: row_hold == ME -> row_live = false; row_left = 0 :: else fi;
#ifdef ORDER
	number = undone; /* durable, because the undo begins with a write to the barrier */
#endif
	printf("@ server: undo, %e\n", s.answer)
}

#define WAY(s, execute, lost) \
	do \
	:: d_step { s.away -> s.away = false; s.left = 0; lost } \
	:: d_step { s.away -> execute; s.away = false; s.left = 0 } \
	od

proctype Acquire(byte n) { WAY(acquire[n], do_acquire(acquire[n]), printf("@ network: acquire is lost\n")) }
proctype Undo(byte n)    { WAY(undo[n], do_undo(undo[n]), printf("@ network: undo is lost\n")) }

/* Others, and what happens to servers. */
active proctype Rivals() {
	do
	:: d_step { row_free -> row_hold = RIVAL; row_live = true; row_left = TTL; printf("@ a rival takes the key\n") }
	:: d_step { row_hold == RIVAL && row_live -> row_live = false; row_left = 0; printf("@ the rival releases\n") }
#ifdef NO_BARRIER
	:: d_step { number == undone && row_hold != ME -> number = nothing; printf("@ server: an election; the number of an undo that wrote nothing is forgotten\n") }
#endif
	od
}

inline older(s)    { if :: s.away -> s.left-- :: else fi }
#define on_time(s) (!s.away || s.left > 0)

active proctype Clock() {
	do
	:: d_step {
			on_time(acquire[0]) && on_time(acquire[1]) && on_time(undo[0]) && on_time(undo[1]) ->
			older(acquire[0]); older(acquire[1]); older(undo[0]); older(undo[1]);
			if :: trust > 0 -> trust-- :: else fi;
			if :: since <= GONE && !forgotten -> since++ :: else fi;
			if :: row_left > 0 -> row_left-- :: else fi;
			printf("@ tick\n")
		}
	od
}

/* ---- an attempt and its undo ---- */

#ifdef TOO_EARLY
#define PAST(t) (since >= t)
#else
#define PAST(t) (since > t)
#endif
#ifdef FIRST_SUCCESS
#define SENT_ONCE true
#else
#define SENT_ONCE (!twice)
#endif

/* Is the undo that was answered final? */
#ifdef GIVES_UP
#define FINAL true
#else
#ifdef ORDER
#define FINAL true
#else
#define FINAL ( \
	(undo[u].answer == found && SENT_ONCE) || /* an ID that is sent once comes once */ \
	(seen && SENT_ONCE) ||                    /* and so if the grant was seen before */ \
	late)                                     /* this undo left when nothing could be under way any more */
#endif
#endif

active proctype Client() {
	bool twice, seen, waiting, late; byte u;
	do
	:: d_step {
			!acquire[0].away && !acquire[1].away && !undo[0].away && !undo[1].away ->
			if :: row_hold == ME -> row_hold = OLD :: else fi;
			acquire[0].answer = none; acquire[1].answer = none; undo[0].answer = none; undo[1].answer = none;
			number = nothing; forgotten = false; since = 0; trust = TTL;
			printf("@ client: a new attempt, clock read\n")
		}
again:	atomic { send(acquire[0]); printf("@ client: acquire leaves\n") }
#ifndef FROM_START
		d_step { since = 0 }
#endif
		do
		:: d_step { acquire[twice].answer == granted -> seen = true; lease = (trust > 0); printf("@ client: granted, trusted for %d\n", trust) }
			/* the caller works, then releases or finds the trust over */
			d_step { lease = false; trust = 0; printf("@ client: the lease has ended\n") }
			break
#ifdef REFUSED
		:: acquire[twice].answer == held -> goto over
#else
		:: acquire[twice].answer == held && !twice -> goto over
		:: acquire[twice].answer == held && twice -> break /* the first sending may still come */
#endif
#ifdef TWICE
		:: d_step { !twice -> twice = true; send(acquire[1]); printf("@ client: no answer; acquire leaves once more\n") }
			d_step { since = 0 }
#endif
		:: d_step { true -> trust = 0; printf("@ client: no answer; the outcome is unknown\n") }
			break
		od;

		do
		:: d_step { !waiting && (!undo[0].away || !undo[1].away) ->
				u = undo[0].away;
				late = PAST(LATEST);
				waiting = true;
				send(undo[u]);
				printf("@ client: undo leaves\n") }
		:: d_step { waiting && undo[u].answer != none && FINAL -> printf("@ client: takes the undo as final\n") }
			break
		:: d_step { waiting && undo[u].answer != none && !(FINAL) -> waiting = false; late = false; u = 0 }
		:: d_step { waiting -> waiting = false; late = false; u = 0 } /* no answer */
		:: PAST(GONE) -> break /* not one answer, but time has done it */
#ifdef REUSED
		:: d_step { waiting && !acquire[0].away -> waiting = false; late = false; u = 0; trust = TTL; printf("@ client: tries again with the same ID, clock read\n") }
			goto again
#endif
		od;
over:	atomic { waiting = false; late = false; u = 0; seen = false; twice = false; trust = 0; forgotten = true; since = 0; printf("@ client: the attempt is forgotten\n") }
	od
}

/* ---- promises ---- */

#define P2 (!(lease && trust > 0) || row_mine)
#define P7 (!(forgotten && row_mine))

active proctype Promises() {
	if
	:: atomic { !P2 -> printf("@ P2 broken: Err is nil, and the key may be granted to another\n"); assert(false) }
	:: atomic { !P7 -> printf("@ P7 broken: the key is held, and nobody knows of it\n"); assert(false) }
	fi
}

init { atomic { run Acquire(0); run Acquire(1); run Undo(0); run Undo(1) } }
