/*
 * handoff.pml: handing off inside a process. P2, P3, P4.
 *
 * Kept: a process with two goroutines, each of which gets leases from the database
 * or from the other one, renews, guards transactions that may outlive the lease,
 * and releases; the token range of a grant; renewals and releases that are late or
 * lost; the guard entry of the row (guard.pml); rivals in other processes.
 *
 * Left out: the acquire's own way (lease.pml; here it takes effect and is answered
 * at once), lag of clocks and so the margin, and how long a process may go on
 * handing on, which is fairness. Guards are MySQL's; with MongoDB's fence the
 * question is the same, because it too knows only the token of the database.
 *
 * GRANTS bounds the run: grants by the database.
 * Wrong variants: HANDS_GUARDED, MARKS_LATE, AFTER_RELEASE, NEW_TRUST, NO_RANGE.
 * RENEWING leaves out a rule and is expected to pass: see docs/quality/model.md.
 */
#define TTL    2
#ifndef RANGE
#define RANGE  2 /* tokens of a grant: 1024 in rowlock */
#endif
#ifndef GRANTS
#define GRANTS 3
#endif

mtype = { NOBODY, OURS, RIVAL } /* OURS: our latest; an earlier one has no statement under way */
mtype row_hold = NOBODY; bool row_live; byte row_left, row_token;
byte grants;
byte newest; /* the token of the newest hold, local ones included */

/* The two handles: g's present lease. */
bool has[2];          /* a lease that has not ended */
byte trust[2];
byte token[2];        /* what the holder was told; the row keeps the first of the range */
byte stored;
bool marked[2];       /* a guard was asked for */
bool waits[2];
bool locks[2];        /* g's transaction has locked the guard entry */
bool in_tx[2];

/* One renewal is waited for, another may be its ghost. */
bool renewing; byte renewer; byte next_trust;
typedef Statement { bool away; byte left; bool answered }
Statement renew[2], release;
byte nth; /* the renewal that is waited for */

#define row_free (!row_live || row_left == 0)
#define unlocked (!locks[0] && !locks[1])
#define quiet    (!renew[0].away && !renew[1].away && !release.away)

inline send(s) { s.away = true; s.left = TTL; s.answered = false }

#define promise(ok, words) if :: ok :: else -> printf(words); assert(false) fi

inline hold_is_new(t) { promise(t > newest, "@ P3 broken: an equal or larger token was granted before\n"); newest = t }

/* ---- the database ---- */

inline granted(who) {
	row_token = row_token + RANGE; row_hold = who; row_live = true; row_left = TTL; grants++;
	hold_is_new(row_token)
}

inline do_renew(s) {
	if
	:: row_hold == OURS && row_live -> row_left = TTL; s.answered = true; printf("@ server: renewal, alive\n")
	:: else /* the answer would say that the hold is gone; not modelled: P2 must hold without it */
	fi
}

inline do_release() {
	if
	:: row_hold == OURS && row_live -> row_live = false; row_left = 0; printf("@ server: release\n")
	:: else
	fi;
	release.answered = true
}

#define WAY(s, execute) \
	do \
	:: d_step { s.away -> s.away = false; s.left = 0; printf("@ network: a statement is lost\n") } \
	:: d_step { s.away -> execute; s.away = false; s.left = 0 } \
	od

proctype Renew(byte n) { WAY(renew[n], do_renew(renew[n])) }
active proctype Release() { WAY(release, do_release()) }

active proctype Rivals() {
	do
	:: d_step { row_free && unlocked && grants < GRANTS -> granted(RIVAL); printf("@ rival: granted, token %d\n", row_token) }
	:: d_step { row_hold == RIVAL && row_live -> row_live = false; row_left = 0; printf("@ rival: releases\n") }
	od
}

inline older(s)    { if :: s.away -> s.left-- :: else fi }
#define on_time(s) (!s.away || s.left > 0)

active proctype Clock() {
	do
	:: d_step {
			on_time(renew[0]) && on_time(renew[1]) && on_time(release) ->
			older(renew[0]); older(renew[1]); older(release);
			if :: trust[0] > 0 -> trust[0]-- :: else fi;
			if :: trust[1] > 0 -> trust[1]-- :: else fi;
			if :: next_trust > 0 -> next_trust-- :: else fi;
			if :: row_left > 0 -> row_left-- :: else fi;
			printf("@ tick\n")
		}
	od
}

/* ---- the process ---- */

#ifdef HANDS_GUARDED
#define MAY_BE_GUARDED true
#else
#define MAY_BE_GUARDED !marked[g]
#endif
#ifdef RENEWING
#define MAY_RENEW true
#else
#define MAY_RENEW !(renewing && renewer == g)
#endif
#ifdef NO_RANGE
#define IN_RANGE true
#else
#define IN_RANGE (token[g] + 1 < stored + RANGE)
#endif
#ifdef NEW_TRUST
#define INHERITED TTL
#else
#define INHERITED trust[g]
#endif

inline end_handle(g) { has[g] = false; trust[g] = 0; token[g] = 0; marked[g] = false }

inline hand_on() { /* the new handle is a new lease; nothing of the old one is left to send */
	token[1-g] = token[g] + 1; trust[1-g] = INHERITED; has[1-g] = true; marked[1-g] = false; waits[1-g] = false;
	hold_is_new(token[1-g]);
	end_handle(g);
	printf("@ goroutine %d: hands on to %d, token %d\n", g, 1-g, newest)
}

/* The release and the mark of a guard exclude each other: each is one step here. */
proctype Goroutine(byte g) {
	do
	:: d_step { /* a lease from the database, with a new hold ID */
			!has[0] && !has[1] && !in_tx[g] && quiet && !renewing && row_free && unlocked && grants < GRANTS ->
			granted(OURS);
			stored = row_token; token[g] = row_token; trust[g] = TTL; has[g] = true; waits[g] = false;
			printf("@ goroutine %d: granted, token %d\n", g, row_token)
		}
	:: d_step { !has[g] && !waits[g] && !in_tx[g] -> waits[g] = true; printf("@ goroutine %d: waits\n", g) }

	:: d_step { has[g] && trust[g] > 0 && !renewing && (!renew[0].away || !renew[1].away) ->
			renewing = true; renewer = g; nth = renew[0].away; next_trust = TTL; send(renew[nth]); printf("@ goroutine %d: a renewal leaves\n", g) }
	:: d_step { renewing && renewer == g && renew[nth].answered ->
			if :: has[g] && trust[g] > 0 && next_trust > trust[g] -> trust[g] = next_trust :: else fi;
			renewing = false; next_trust = 0; nth = 0; renewer = 0; printf("@ goroutine %d: hears that the renewal came\n", g) }
	:: d_step { renewing && renewer == g -> renewing = false; next_trust = 0; nth = 0; renewer = 0 } /* given up */

	:: d_step { has[g] && trust[g] > 0 && waits[1-g] && MAY_BE_GUARDED && MAY_RENEW && IN_RANGE ->
#ifdef AFTER_RELEASE
			if :: !release.away -> send(release); printf("@ goroutine %d: the release leaves\n", g) :: else fi;
#endif
			hand_on() }
	:: d_step { has[g] && !release.away -> /* a release, or the undo of a lost lease */
			end_handle(g); send(release); printf("@ goroutine %d: the release leaves\n", g) }
	:: d_step { !has[0] && !has[1] && row_hold == OURS && row_live && !release.away -> send(release) } /* repeated */
	od
}

/* A guarded transaction of g's lease. It may go on after the lease. */
proctype Transaction(byte g) {
	byte t, s; bool open;
	do
	:: d_step { has[g] && trust[g] > 0 ->
			t = token[g]; s = stored; in_tx[g] = true; open = true;
#ifndef MARKS_LATE
			marked[g] = true;
#endif
			printf("@ goroutine %d: the guard leaves, for token %d (in the row: %d)\n", g, t, s) }
		if
		:: d_step { row_token == s -> locks[g] = true; printf("@ server: guard of goroutine %d, locked\n", g) }
#ifdef MARKS_LATE
			d_step { if :: has[g] && token[g] == t -> marked[g] = true; printf("@ goroutine %d: marks its handle\n", g) :: else -> printf("@ goroutine %d: its handle has ended\n", g) fi }
#endif
			do
			:: d_step { open ->
					printf("@ goroutine %d: commits under token %d, the newest is %d\n", g, t, newest);
					promise(newest <= t, "@ P4 broken: a newer hold was granted\n");
					locks[g] = false }
				break
			:: d_step { open -> locks[g] = false; open = false; printf("@ server: ends the session of goroutine %d\n", g) }
			:: !open -> break
			od
		:: d_step { row_token != s -> printf("@ server: guard of goroutine %d, lost\n", g) }
		fi;
		atomic { t = 0; s = 0; open = false; in_tx[g] = false }
	od
}

/* ---- promises ---- */

#define row_ours (row_hold == OURS && row_live && row_left > 0)
#define P2 ((has[0] && trust[0] > 0 -> row_ours : true) && (has[1] && trust[1] > 0 -> row_ours : true))

active proctype Promises() {
	atomic { !P2 -> printf("@ P2 broken: Err is nil, and the key may be granted to another\n"); assert(false) }
}

init { atomic { run Renew(0); run Renew(1); run Goroutine(0); run Goroutine(1); run Transaction(0); run Transaction(1) } }
