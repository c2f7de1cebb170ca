/*
 * hint.pml: fairness between clients by hints. N4 (docs/performance.md).
 *
 * Kept: one key and three clients, each of which comes, waits, holds, passes the key to
 * a caller of its own, releases, comes again at once or later, gives up or dies (its
 * hint stays, and it may come back); the hint in the row; looks, at any pace that is
 * allowed, and attempts that renew the hint; what a release tells of hints, and a look
 * at one's own key; the tenure; the pause of a releaser; hints for which nobody came.
 *
 * Left out: exclusion, which cannot depend on a hint, because no answer does but what
 * it tells of the hint; the server's queues; streams; expiry; the way of a statement,
 * which takes effect and is answered at once; batches; budgets of looks and hints.
 *
 * N4 is put as two bounds. BOUND: how often others are granted the key while C waits,
 * which is from a refusal until it is granted the key or gives up. UNUSED: for how long
 * the only client that wants the key leaves it alone, since a hint was left or renewed.
 *
 * BOUND is of holds of a tick each, and is the time in which a client may go on though
 * C waits. Another's hint stands for HINT, nobody comes for it, and C is refused
 * meanwhile; it comes again HALF later and leaves its own. What follows (the next
 * release tells of it, the tenure may be young) is shorter than the two pauses in vain
 * that went before. Then there is a pause, in which C looks at the key. That another
 * client takes it first is chance, which the model does not know: it happens at most
 * LUCK times while C waits (0: the grants are one client's, in a row). Each time C's
 * hint may have ended just then, so that the next attempt is up to HALF + LOOK away.
 * Longer holds have no such bound: they may always end between two hints.
 *
 * Times are in ticks, and stand to each other as in internal/key.
 * Wrong variants: ANY_HINT, REMOVED, NOT_RENEWED, NO_PAUSE, PAUSE=1, UNASKED, NO_VAIN.
 * ANOTHERS leaves out a rule and is expected to pass: see docs/quality/model.md.
 */
#ifndef HINT
#define HINT   6 /* how long a hint stands */
#endif
#ifndef PAUSE
#define PAUSE  2 /* how long a releaser leaves the key to another */
#endif
#ifndef LUCK
#define LUCK   0
#endif
#define HALF   (HINT / 2)
#define LOOK   1 /* the longest distance of two looks */
#define TENURE 2 /* how long a client goes on though another wants the key */
#define ASKED  2 /* how long it is good for, what was told of hints */
#define VAIN   2 /* pauses in which nobody came */

#ifndef BOUND
#define BOUND  (HINT + HALF + LUCK * (HALF + LOOK))
#endif
#define UNUSED (VAIN * PAUSE)

#define CLIENTS 3
#define NONE    CLIENTS
#define C       2

mtype = { AWAY, TRIES, RESTS, HOLDS, PAUSES }

bool held; byte last = NONE; /* who holds the key, or was the last to */
byte hint_of = NONE, hint_left;

mtype mode[CLIENTS] = AWAY;
byte looked[CLIENTS];   /* ticks since its last look or attempt */
byte tried[CLIENTS];    /* ticks since its last attempt */
bool served[CLIENTS];   /* its hold has lasted a tick */
byte age[CLIENTS];      /* of its tenure, which has begun when in_tenure */
bool in_tenure[CLIENTS];
byte known[CLIENTS] = NONE, known_left[CLIENTS], vain[CLIENTS]; /* whose hint stands, as last told */
byte told[CLIENTS];     /* how long that is good for */
bool paused[CLIENTS]; byte pause_left[CLIENTS];

bool waiting; /* C */
byte others;  /* grants to others meanwhile */
byte turns;   /* of them those to another than the one before */
byte unused;

#define promise(ok, words) if :: ok :: else -> printf(words); assert(false) fi

inline count(c) {
	if :: c != C && waiting -> others++; if :: c != last -> turns++ :: else fi :: else fi;
	promise(others <= BOUND, "@ N4 broken: another client waits for longer\n")
}

/* ---- the database ---- */

#ifdef ANY_HINT
#define ITS_OWN true
#else
#define ITS_OWN (hint_of == c)
#endif
#ifdef ANOTHERS
#define MAY_LEAVE (hint_of != c || hint_left <= HALF)
#else
#define MAY_LEAVE (hint_of == NONE || hint_of == c && hint_left <= HALF)
#endif
#ifdef REMOVED
#define KEPT false
#else
#define KEPT true
#endif

inline row_refuses(c) {
	if
	:: MAY_LEAVE -> hint_of = c; hint_left = HINT; unused = 0; printf("@ client %d: refused, leaves its hint\n", c)
	:: else -> printf("@ client %d: refused, the hint of %d stands\n", c, hint_of)
	fi
}

inline row_grants(c) {
	count(c);
	if :: c != last -> unused = 0 :: else fi;
	held = true; last = c;
	if :: ITS_OWN -> hint_of = NONE; hint_left = 0 :: else fi;
	printf("@ client %d: granted\n", c)
}

/* ---- a client ---- */

#ifdef NO_VAIN
#define wanted(c) (known[c] != NONE)
#else
#define wanted(c) (known[c] != NONE && vain[c] < VAIN)
#endif
#ifdef NO_PAUSE
#define MAY_PAUSE false
#else
#define MAY_PAUSE true
#endif
#ifdef UNASKED
#define IS_TOLD true
#else
#define IS_TOLD (told[c] > 0)
#endif
#ifdef NOT_RENEWED
#define due(c) false
#else
#define due(c) (tried[c] >= HALF)
#endif

inline forget(c)      { known[c] = NONE; known_left[c] = 0; vain[c] = 0 }
inline tenure_ends(c) { in_tenure[c] = false; age[c] = 0 }

inline is_told(c) {
	told[c] = ASKED;
	if
	:: hint_of == NONE || hint_of == c -> forget(c)
	:: else ->
		if
		:: known[c] == hint_of && hint_left < known_left[c] + HALF / 2 /* the same, not renewed */
		:: else -> vain[c] = 0
		fi;
		known[c] = hint_of; known_left[c] = hint_left
	fi
}

inline stops_waiting(c) {
	looked[c] = 0; tried[c] = 0;
	if :: c == C -> waiting = false; others = 0; turns = 0 :: else fi
}

inline attempt(c) {
	if
	:: held ->
		row_refuses(c);
		forget(c); told[c] = 0; tenure_ends(c);
		looked[c] = 0; tried[c] = 0; mode[c] = RESTS;
		if :: c == C -> waiting = true :: else fi
	:: else ->
		row_grants(c);
		if :: paused[c] && wanted(c) && vain[c] < VAIN -> vain[c]++; printf("@ client %d: has paused in vain\n", c) :: else fi;
		in_tenure[c] = true; mode[c] = HOLDS;
		stops_waiting(c)
	fi;
	paused[c] = false; pause_left[c] = 0
}

inline release(c) {
	held = false; served[c] = false;
	if :: KEPT :: else -> hint_of = NONE; hint_left = 0 fi;
	is_told(c);
	if
	:: MAY_PAUSE && wanted(c) && age[c] >= TENURE ->
		paused[c] = true; pause_left[c] = PAUSE; tenure_ends(c);
		printf("@ client %d: releases, and leaves the key to %d\n", c, known[c])
	:: else ->
		if :: known[c] == NONE -> tenure_ends(c) :: else fi; /* nothing is worth keeping */
		printf("@ client %d: releases\n", c)
	fi
}

inline comes(c) { if :: pause_left[c] > 0 -> mode[c] = PAUSES :: else -> mode[c] = TRIES fi }

#define unlucky(c) (!held && waiting && c != C && c != last && turns == LUCK)

proctype Client(byte c) {
	do
	:: d_step { mode[c] == AWAY -> comes(c) }
	:: d_step { mode[c] == TRIES && !unlucky(c) -> attempt(c) }
	:: d_step { mode[c] == RESTS && due(c) && !unlucky(c) -> attempt(c) }
	:: d_step { mode[c] == RESTS && !due(c) && !held -> mode[c] = TRIES } /* a look */
	:: d_step { mode[c] == RESTS && !due(c) && held && looked[c] > 0 -> looked[c] = 0 }
	:: d_step { mode[c] == HOLDS && served[c] && told[c] < ASKED -> is_told(c); printf("@ client %d: looks for hints\n", c) }
	:: d_step { mode[c] == HOLDS && served[c] && IS_TOLD && !wanted(c) ->
			served[c] = false; count(c); printf("@ client %d: passes the key to a caller of its own\n", c) }
	:: d_step { mode[c] == HOLDS && served[c] -> release(c); if :: comes(c) :: mode[c] = AWAY fi }
	:: d_step { mode[c] == PAUSES && pause_left[c] == 0 -> mode[c] = TRIES }
	:: d_step { mode[c] == RESTS || mode[c] == PAUSES -> mode[c] = AWAY; stops_waiting(c); printf("@ client %d: gives up, or dies\n", c) }
	od
}

/* ---- time ---- */

#define on_time(c) (mode[c] == AWAY || mode[c] == RESTS && looked[c] < LOOK || mode[c] == HOLDS && !served[c] || mode[c] == PAUSES && pause_left[c] > 0)
#define alone(a, b, c) (mode[a] == PAUSES && mode[b] == AWAY && mode[c] == AWAY)

inline older(c) {
	if
	:: mode[c] == RESTS -> looked[c]++; if :: tried[c] < HALF -> tried[c]++ :: else fi
	:: mode[c] == HOLDS -> served[c] = true
	:: else
	fi;
	if :: in_tenure[c] && age[c] < TENURE -> age[c]++ :: else fi;
	if :: pause_left[c] > 0 -> pause_left[c]-- :: else fi;
	if :: told[c] > 0 -> told[c]-- :: else fi;
	if :: known_left[c] > 1 -> known_left[c]-- :: else -> forget(c) fi
}

active proctype Clock() {
	do
	:: d_step { on_time(0) && on_time(1) && on_time(2) ->
			if
			:: !held && (alone(0, 1, 2) || alone(1, 0, 2) || alone(2, 0, 1)) ->
				unused++;
				promise(unused <= UNUSED, "@ N4 broken: the only client leaves the key alone for longer\n")
			:: else
			fi;
			older(0); older(1); older(2);
			if :: hint_left > 1 -> hint_left-- :: else -> hint_left = 0; hint_of = NONE fi;
			printf("@ tick\n") }
	od
}

init { atomic { run Client(0); run Client(1); run Client(2) } }
