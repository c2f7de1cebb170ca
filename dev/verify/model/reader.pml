/*
 * reader.pml: guarded readers and slots on MongoDB. P21.
 *
 * Kept: the lease document with its phase and the entries in it; the fence of each hold, which a
 * guard writes inside its transaction, and which an exclusive grant raises before it returns, if
 * it is there: it raises a range, and makes none; write conflicts; pinned; sessions that end. One
 * of the two holders is a reader, whose fence is made before it joins, with token 0; the other a
 * slot, whose fence is made after its grant, because its number is not known before: it returns
 * only if it finds its entry still there afterwards.
 *
 * Left out: time. An entry may expire at any moment, so an exclusive request may end it, and so
 * may the exclusive hold. The range is raised fence by fence; between two of them anything happens.
 * The next holder of a slot, which raises its fence as an exclusive one does that of the key, is
 * fence.pml.
 *
 * P21 counts from the moment the exclusive acquire returned to its caller.
 * Wrong variants: LATE_READER (its fence is made after the join), NO_LOOK (the slot does not
 * look), ANY_TOKEN (the guard does not ask for the token), NO_RANGE (an exclusive grant raises nothing).
 */
#define HOLDERS 2
#define READER  0
#define SLOT    1
#ifndef GRANTS
#define GRANTS  5
#endif

byte top;                       /* the largest token */
byte phase;                     /* its token; 0: there is none */
bool entry[HOLDERS];
bool excluded;                  /* an exclusive hold has the key */
bool there[HOLDERS]; byte fence[HOLDERS];
bool written[HOLDERS];          /* by an open transaction */
bool stale[HOLDERS];            /* changed since the snapshot of one */
byte told;                      /* the largest exclusive token that an acquire returned */
byte mine[HOLDERS];             /* the token of the hold that the caller has, or believes to have */

#ifdef ANY_TOKEN
#define FITS true
#else
#define FITS ((c == READER && fence[c] <= t) || fence[c] == t)
#endif
#define promise(ok, words) if :: ok :: else -> printf(words); assert(false) fi

inline make(c, t) {
	d_step {
		if :: !there[c] -> there[c] = true; fence[c] = t; stale[c] = true
		   :: else -> if :: fence[c] < t -> fence[c] = t; stale[c] = true :: else fi fi;
		printf("@ holder %d: its fence is at %d\n", c, fence[c])
	}
}

proctype Holder(byte c) {
	byte t;
	do
	:: if
#ifndef LATE_READER
		:: c == READER -> !there[c]; make(c, 0)
#endif
		:: else
		fi;
		if
		:: d_step { !excluded && top < GRANTS -> /* join, or begin a phase */
				if :: phase == 0 -> top++; phase = top; printf("@ holder %d: begins phase %d\n", c, phase)
				   :: else -> printf("@ holder %d: joins phase %d\n", c, phase) fi;
				t = phase; entry[c] = true }
		:: goto end
		fi;
#ifdef LATE_READER
		make(c, t);
#else
		if
		:: c == SLOT -> !written[c]; make(c, t) /* an open transaction of the hold before is waited for */
		:: else
		fi;
#endif
#ifndef NO_LOOK
		if
		:: c == SLOT -> if :: entry[c] && phase == t :: else -> printf("@ holder %d: its hold is gone\n", c); goto end fi
		:: else
		fi;
#endif
		atomic { mine[c] = t; printf("@ holder %d: acquire returns, phase %d\n", c, t) }
		atomic { /* released, or lost and undone; its transaction may be open still */
			if :: entry[c] && phase == t -> entry[c] = false :: else fi;
			if :: phase == t && !entry[0] && !entry[1] -> phase = 0 :: else fi;
			printf("@ holder %d: releases\n", c) }
end:	if
		:: d_step { c == READER && there[c] && !written[c] -> there[c] = false; fence[c] = 0; stale[c] = true; mine[c] = 0; printf("@ holder %d: removes its fence\n", c) }
		:: c == SLOT
		fi;
		t = 0
	od
}

proctype Writer() {
	byte t, i;
	do
	:: d_step { top < GRANTS -> /* each entry has expired or was released */
			top++; t = top; excluded = true; phase = 0; entry[0] = false; entry[1] = false;
			printf("@ writer: takes the lease document, token %d\n", t) }
#ifndef NO_RANGE
		for (i : 0 .. HOLDERS - 1) {
			if
			:: d_step { !there[i] -> printf("@ writer: finds no fence %d\n", i) }
			:: d_step { there[i] && !written[i] ->
					if :: fence[i] < t -> fence[i] = t; stale[i] = true :: else fi;
					printf("@ writer: fence %d is at %d\n", i, fence[i]) }
			:: d_step { there[i] && written[i] -> printf("@ writer: pinned\n") } goto back
			fi
		}
#endif
		if
		:: d_step { excluded -> told = t; printf("@ writer: acquire returns, token %d\n", t) }
		:: skip /* too late: undone */
		fi;
back:	atomic { excluded = false; t = 0; i = 0; printf("@ writer: releases\n") } /* or it expires */
	od
}

/* A transaction of a caller that has, or believes to have, the hold. */
proctype Transaction(byte c) {
	byte t; bool open;
	do
	:: d_step { mine[c] != 0 -> t = mine[c]; stale[c] = false; open = true; printf("@ holder %d: begins a transaction in phase %d\n", c, t) }
		if
		:: d_step { there[c] && !written[c] && !stale[c] && FITS -> written[c] = true; printf("@ holder %d: guard writes the fence in phase %d\n", c, t) }
			if
			:: d_step { printf("@ holder %d: commits in phase %d, told was %d\n", c, t, told);
					promise(told <= t, "@ P21 broken: a newer exclusive hold was returned\n") }
			:: d_step { printf("@ server: ends the session of holder %d\n", c) }
			fi;
			d_step { written[c] = false; stale[c] = true }
		:: skip /* lost, or a write conflict: aborted */
		fi;
		atomic { t = 0; open = false }
	od
}

init {
	atomic {
		run Holder(READER); run Holder(SLOT); run Writer();
		run Transaction(READER); run Transaction(SLOT)
	}
}
