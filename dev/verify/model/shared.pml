/*
 * shared.pml: readers, slots and exclusive holders of one key on MySQL and MariaDB. P16, P17,
 * P20, P21, and P19 as far as a gate goes.
 *
 * Kept: the key's row, which is free, has an exclusive hold, or is in a phase; in a phase the
 * row of each reader, and that of one slot, which several callers want; the gate of an
 * exclusive attempt; the steps begin, join, gate, bury, look and take, each a statement;
 * renewals that come late, after the hold has expired or was buried; answers that are lost,
 * undos by hold ID, and joins that come after their undo; guarded transactions, which lock the
 * entry of a token and go on whatever becomes of the hold.
 *
 * Look and take are one statement as it was built; here they are two, because a server may
 * read the other table before it has the row. A hold may expire at any moment at which
 * nobody trusts it (that trust ends before is lease.pml), a gate at any moment.
 *
 * Left out: MinHold; force; a phase of UniqueInsert whose token is not confirmed; the reaper; the
 * time in which readers are left alone; and all that a wrong variant needs not.
 *
 * READERS, SLOTS, WRITERS: callers of each kind; TRIES: attempts of each.
 * Wrong variants: NO_LOOK, NO_GATE (joins ask for none, takes demand none), OLD_GATE (a join
 * overlooks one that is over), REVIVES (a late renewal does not ask whether the hold was
 * ended), COUNTS_EXPIRED (a take looks for live holds only), TWO_STEPS (a join asks for phase
 * and gate before it writes), BY_KEY (an undo names no hold), NO_RAISE (a phase has the token of
 * the hold before), NO_WAIT (a take does not wait for guards), SLOT_NO_WAIT, BELOW_SLOTS (a
 * take's token is above that of the phase only). With P19 a join is asked whether a gate stood.
 */
#ifndef READERS
#define READERS 1
#endif
#ifndef SLOTS
#define SLOTS 0
#endif
#ifndef WRITERS
#define WRITERS 1
#endif
#ifndef TRIES
#define TRIES 2
#endif
#define FIRST_SLOT   READERS
#define FIRST_WRITER (READERS + SLOTS)
#define ALL          (READERS + SLOTS + WRITERS)
#define NOBODY       ALL

mtype = { free, exclusive, phase };      /* of the key's row */
mtype = { none, live, expired, ended };  /* of a hold */

mtype state = free;
byte holder = NOBODY;        /* exclusive: whose */
bool alive;                  /* exclusive: not expired */
byte token;
byte gate = NOBODY;          /* whose attempt's */
bool over;                   /* its time is */
mtype row[ALL] = none;       /* of readers */
mtype slot = none; byte slotter = NOBODY; byte slot_token;

bool has[ALL];               /* the caller trusts its hold */
byte mine[ALL];              /* the token of its phase, or exclusive hold */
byte own[ALL];               /* a slot's own token */
bool locks[ALL];             /* its transaction has a lock on the entry of mine, and of own */
byte newest_exclusive, newest_other, newest_slot; /* the largest tokens that were granted */

#define promise(ok, words) if :: ok :: else -> printf(words); assert(false) fi

#ifdef NO_GATE
#define UNGATED true
#define STANDS  true
#else
#define STANDS (gate == w)
#ifdef OLD_GATE
#define UNGATED (gate == NOBODY || over)
#else
#define UNGATED (gate == NOBODY)
#endif
#endif
#ifdef COUNTS_EXPIRED
#define THERE(r) (r == live)
#else
#define THERE(r) (r == live || r == expired)
#endif
#ifdef REVIVES
#define RENEWABLE(r) (r == live || r == expired || r == ended)
#else
#define RENEWABLE(r) (r == live || r == expired)
#endif
#ifdef P19
#define ASK promise(gate == NOBODY || over, "@ P19 broken: a hold was granted while a gate stands\n")
#else
#define ASK skip
#endif

byte i, j;                   /* of d_steps */

/* Holds that exclude each other: those that are trusted, or live by the database. */
#define COUNTS_READER(c) (has[c] || row[c] == live)
#define COUNTS_SLOT(c)   (has[c] || (slot == live && slotter == c))
#define COUNTS_WRITER(c) (has[c] || (state == exclusive && holder == c && alive))
inline exclusion() {
	i = FIRST_WRITER;
	do
	:: i < ALL ->
		if
		:: COUNTS_WRITER(i) ->
			j = 0;
			do
			:: j < FIRST_SLOT -> promise(!COUNTS_READER(j), "@ P16 broken: a reader beside an exclusive holder\n"); j++
			:: j >= FIRST_SLOT && j < FIRST_WRITER -> promise(!COUNTS_SLOT(j), "@ P16 broken: a slot beside an exclusive holder\n"); j++
			:: j >= FIRST_WRITER && j < ALL -> promise(j == i || !COUNTS_WRITER(j), "@ P1 broken: two exclusive holders\n"); j++
			:: j == ALL -> break
			od
		:: else
		fi;
		i++
	:: else -> break
	od;
	i = FIRST_SLOT;
	do
	:: i < FIRST_WRITER ->
		j = i + 1;
		do
		:: j < FIRST_WRITER -> promise(!COUNTS_SLOT(i) || !COUNTS_SLOT(j), "@ P17 broken: two have one slot\n"); j++
		:: else -> break
		od;
		i++
	:: else -> break
	od;
	i = 0; j = 0
}

/* locked: a guard has the entry of the key's token. */
#define LOCKS(n)  (locks[n] && mine[n] == token)
#if ALL == 2
#define unlocked (!LOCKS(0) && !LOCKS(1))
#elif ALL == 3
#define unlocked (!LOCKS(0) && !LOCKS(1) && !LOCKS(2))
#else
#define unlocked (!LOCKS(0) && !LOCKS(1) && !LOCKS(2) && !LOCKS(3))
#endif
#ifdef NO_WAIT
#define takeable true
#else
#define takeable unlocked
#endif
#if SLOTS == 0 || defined(SLOT_NO_WAIT)
#define slot_unlocked true
#elif SLOTS == 1
#define slot_unlocked !(locks[FIRST_SLOT] && own[FIRST_SLOT] == slot_token)
#else
#define slot_unlocked (!(locks[FIRST_SLOT] && own[FIRST_SLOT] == slot_token) && !(locks[FIRST_SLOT + 1] && own[FIRST_SLOT + 1] == slot_token))
#endif
#define takeover (state == free || (state == exclusive && !alive))

/* A phase begins where the key is free: it grants nothing. A gate that is over is cleared. */
inline prepare() {
	if
	:: d_step { takeover && unlocked -> state = phase; holder = NOBODY; gate = NOBODY; over = false;
#ifndef NO_RAISE
			token++;
#endif
			printf("@ a phase begins\n") }
	:: d_step { state == phase && gate != NOBODY && over -> gate = NOBODY; over = false; printf("@ a gate that is over is cleared\n") }
	:: skip
	fi
}

inline admit(c, t) {
	promise(t > newest_exclusive, "@ P20 broken: a reader or slot has no larger token than an exclusive holder before it\n");
	newest_other = (t > newest_other -> t : newest_other);
	ASK; exclusion()
}

#if READERS > 0
inline join(r) { row[r] = live; mine[r] = token; printf("@ reader %d: joins\n", r); admit(r, token) }

inline undo(r) {
#ifdef BY_KEY
	i = 0; do :: i < READERS -> row[i] = none; i++ :: else -> break od; i = 0;
#endif
	row[r] = none
}

proctype Reader(byte r) {
	byte tries = TRIES;
	do
	:: tries > 0 ->
		tries--;
		prepare();
		if
#ifdef TWO_STEPS
		:: state == phase && UNGATED; d_step { join(r) }
#else
		:: d_step { state == phase && UNGATED -> join(r) }
#endif
		:: goto next
		:: d_step { undo(r); printf("@ reader %d: gives up before its join arrives\n", r) } /* which may come all the same */
			if
			:: d_step { state == phase && UNGATED -> join(r) }
			:: skip
			fi;
			break
		fi;
		if
		:: d_step { row[r] == live -> has[r] = true; exclusion() }
			if :: d_step { has[r] && token == mine[r] -> locks[r] = true; printf("@ reader %d: its transaction is guarded\n", r) } :: skip fi;
			has[r] = false;
			if
			:: skip
			:: d_step { if :: RENEWABLE(row[r]) -> printf("@ reader %d: a late renewal finds its hold\n", r); row[r] = live; exclusion()
				:: else -> printf("@ reader %d: a late renewal finds nothing\n", r) fi }
			fi
		:: printf("@ reader %d: its answer is lost\n", r)
		fi;
		if
		:: d_step { undo(r); printf("@ reader %d: releases\n", r) }
		:: skip /* lost */
		fi;
		d_step { if :: locks[r] -> promise(newest_exclusive <= mine[r], "@ P21 broken: a reader commits after a newer exclusive grant\n");
				locks[r] = false; printf("@ reader %d: commits\n", r) :: else fi };
		if :: row[r] == none :: else -> break fi;
next:		mine[r] = 0
	:: tries == 0 -> break
	od
}
#endif

#if SLOTS > 0
inline join_slot(c) {
	slot = live; slotter = c; mine[c] = token;
	slot_token = (slot_token > token -> slot_token : token) + 1; own[c] = slot_token;
	printf("@ caller %d: has the slot\n", c);
	promise(slot_token > newest_slot, "@ P20 broken: the token of a slot fell\n");
	newest_slot = slot_token;
	admit(c, slot_token)
}
#define SLOT_FREE (slot != live && slot_unlocked)

inline undo_slot(c) {
#ifdef BY_KEY
	slot = ended
#else
	if :: slotter == c -> slot = ended :: else fi
#endif
}

proctype Slotter(byte c) {
	byte tries = TRIES;
	do
	:: tries > 0 ->
		tries--;
		prepare();
		if
		:: d_step { state == phase && UNGATED && SLOT_FREE -> join_slot(c) }
		:: goto next
		:: d_step { undo_slot(c); printf("@ caller %d: gives up before its join arrives\n", c) }
			if
			:: d_step { state == phase && UNGATED && SLOT_FREE -> join_slot(c) }
			:: skip
			fi;
			break
		fi;
		if
		:: d_step { slot == live && slotter == c -> has[c] = true; exclusion() }
			if :: d_step { has[c] && token == mine[c] && slot_token == own[c] -> locks[c] = true; printf("@ caller %d: its transaction is guarded\n", c) } :: skip fi;
			has[c] = false;
			if
			:: skip
			:: d_step { if :: slotter == c && RENEWABLE(slot) -> slot = live; printf("@ caller %d: a late renewal finds its hold\n", c); exclusion()
				:: else -> printf("@ caller %d: a late renewal finds nothing\n", c) fi }
			fi
		:: printf("@ caller %d: its answer is lost\n", c)
		fi;
		if
		:: d_step { undo_slot(c); printf("@ caller %d: releases\n", c) }
		:: skip
		fi;
		d_step { if :: locks[c] -> promise(newest_exclusive <= mine[c], "@ P21 broken: a slot's transaction commits after a newer exclusive grant\n");
				promise(newest_slot <= own[c], "@ P21 broken: a slot's transaction commits after its next grant\n");
				locks[c] = false; printf("@ caller %d: commits\n", c) :: else fi };
		if :: slotter != c || slot == ended || slot == none :: else -> break fi;
next:		mine[c] = 0; own[c] = 0
	:: tries == 0 -> break
	od
}
#endif

inline grant(w) {
	state = exclusive; holder = w; alive = true; gate = NOBODY; over = false; mine[w] = token;
	promise(token > newest_exclusive && token > newest_other, "@ P20 broken: an exclusive holder has no larger token than a hold before it\n");
	newest_exclusive = token;
	exclusion()
}

proctype Writer(byte w) {
	byte tries = TRIES;
	bool seen;
	do
	:: tries > 0 ->
		tries--;
		if
		:: d_step { takeover && unlocked -> printf("@ writer %d: takes a free key\n", w); token++; grant(w) }
		:: d_step { state == phase && (gate == NOBODY || over || gate == w) -> gate = w; over = false; printf("@ writer %d: leaves its gate\n", w) }
			if
			:: d_step { skip
#if READERS > 0
				; i = 0; do :: i < READERS -> if :: row[i] == expired -> row[i] = ended; printf("@ writer %d: buries a reader\n", w) :: else fi; i++ :: else -> break od; i = 0
#endif
#if SLOTS > 0
				; if :: slot == expired -> slot = ended; printf("@ writer %d: buries a slot\n", w) :: else fi
#endif
				}
			:: skip
			fi;
			d_step { seen = THERE(slot); i = 0; do :: i < READERS -> seen = seen || THERE(row[i]); i++ :: else -> break od; i = 0
#ifdef NO_LOOK
				seen = false
#endif
				}
			if
			:: seen -> printf("@ writer %d: sees that somebody is there\n", w)
			:: else ->
				if
				:: d_step { state == phase && STANDS && takeable -> printf("@ writer %d: takes after a phase\n", w);
#ifdef BELOW_SLOTS
						token++;
#else
						token = (slot_token > token -> slot_token : token) + 1;
#endif
						grant(w) }
				:: d_step { !(state == phase && STANDS) -> printf("@ writer %d: its gate is gone\n", w) }
				:: d_step { if :: gate == w -> gate = NOBODY; over = false :: else fi; printf("@ writer %d: gives up before its take arrives\n", w) }
					if
					:: d_step { state == phase && STANDS && takeable -> token++; grant(w) } /* its undo came before: it must find nothing */
					:: d_step { !(state == phase && STANDS && takeable) -> skip }
					fi
				:: skip
				fi
			fi
		:: goto next
		fi;
		if
		:: d_step { state == exclusive && holder == w && alive -> has[w] = true; exclusion() }
			if :: d_step { has[w] && token == mine[w] -> locks[w] = true; printf("@ writer %d: its transaction is guarded\n", w) } :: skip fi;
			has[w] = false;
			if
			:: skip
			:: d_step { if :: state == exclusive && holder == w -> alive = true; printf("@ writer %d: a late renewal finds its hold\n", w); exclusion()
				:: else -> printf("@ writer %d: a late renewal finds nothing\n", w) fi }
			fi
		:: printf("@ writer %d: has nothing, or its answer is lost\n", w)
		fi;
		if
		:: d_step { if :: state == exclusive && holder == w -> state = free; holder = NOBODY; alive = false :: else fi;
				if :: gate == w -> gate = NOBODY; over = false :: else fi; printf("@ writer %d: releases, or undoes what it sent\n", w) }
		:: skip
		fi;
		d_step { if :: locks[w] -> promise(newest_exclusive <= mine[w] && newest_other <= mine[w], "@ P4 broken: a writer commits after a newer grant\n");
				locks[w] = false; printf("@ writer %d: commits\n", w) :: else fi };
next:		seen = false
	:: tries == 0 -> break
	od
}

/* Time passes. What nobody trusts may expire, and a gate. */
active proctype Time() {
end:	do
	:: d_step { state == exclusive && alive && !has[holder] -> alive = false; printf("@ an exclusive hold expires\n") }
	:: d_step { gate != NOBODY && !over -> over = true; printf("@ a gate is over\n") }
#if READERS > 0
	:: d_step { row[0] == live && !has[0] -> row[0] = expired; printf("@ a reader expires\n") }
#endif
#if READERS > 1
	:: d_step { row[1] == live && !has[1] -> row[1] = expired; printf("@ a reader expires\n") }
#endif
#if SLOTS > 0
	:: d_step { slot == live && !has[slotter] -> slot = expired; printf("@ the slot expires\n") }
#endif
	od
}

init {
	byte n;
	atomic {
		do
#if READERS > 0
		:: n < FIRST_SLOT -> run Reader(n); n++
#endif
#if SLOTS > 0
		:: n >= FIRST_SLOT && n < FIRST_WRITER -> run Slotter(n); n++
#endif
		:: n >= FIRST_WRITER && n < ALL -> run Writer(n); n++
		:: n == ALL -> break
		od
	}
}
