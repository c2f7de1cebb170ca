/*
 * line.pml: one key, whose waiting programs stand in a line in the key's row.
 * P1, P2, P5, P29.
 *
 * Kept: the row with its hold and its line; the statements stand (acquire), leave
 * (release, give up, undo: where the hold is the one named, the key is passed on in
 * the same step), renew and advance, which the network delays by up to one TTL or
 * loses, which then wait for a row lock, and which count with the time at which they
 * arrived, not at which they got the row: so a pass is seen later than its claim
 * begins; looks, which read the row at some moment between their sending and their
 * answer; entries that nobody refreshes and that are dead at any moment; a release
 * that stands anew in the same statement; clients that give up at any moment, also
 * at that of the pass, each of which may stop at any step; a client clock that loses
 * a tick now and then; a server's clock that is set back, or forward.
 *
 * Left out: tokens (handoff.pml), guards, modes, how soon anybody looks, how long an
 * entry lives, when to stop undoing (undo.pml: here a leave is repeated or not, as
 * chance has it, so that entries and holds of nobody stay behind).
 *
 * Times are what is left, not dates. A hold ID is used again when no statement and
 * no entry names it any more and its hold is over. So neither time nor the number
 * of attempts has a bound.
 *
 * Wrong variants: NOT_SEEN, WHOLE_TTL, FROM_REPLY, NO_MARGIN, BLIND, BY_KEY, BARGES,
 * LAST_FIRST, STAYS, MOVES.
 */
#ifndef TTL
#define TTL    3
#endif
#ifndef CLAIM
#define CLAIM  2 /* for how long a key is passed */
#endif
#define DELAY  TTL
#ifndef BOUND
#define BOUND  1 /* the longest wait for a row lock */
#endif
#if defined(NO_MARGIN) || !defined(LAG)
#define MARGIN 0
#else
#define MARGIN 1
#endif

/* The runs:
 *	          two clients with an ID each, that do not renew
 *	THREE     the same and a rival
 *	NEXT      one such with two IDs: late statements of an attempt meet the next
 *	          one, which may have begun with the release; and a rival
 *	ONE       one client with one ID, which renews and repeats its stand; and a rival
 *	LAG       ONE, whose clock lags
 *	BACK      the server's clock is set back, once
 *	FORWARD   it is set forward, once: what was held then is excused
 *	FORCE     the hold is ended by force, once: excused too */
#if defined(LAG) && !defined(ONE)
#define ONE
#endif
#ifdef ONE
#define RENEWS
#endif
#define HOLDS   2
#if defined(NEXT) || defined(ONE)
#define CLIENTS 1
#else
#define CLIENTS 2
#endif
#define RIVAL   HOLDS
#define NOBODY  (HOLDS + 1)

/* The row. left is the time to its expiry; not above 0: over. A key that nobody has
 * is free since ever. */
byte  row_hold = NOBODY;
short row_left = -BOUND;
byte  line[HOLDS + 1] = NOBODY; /* those who stand, the first first */
byte  standing;
bool  dead[HOLDS + 1];          /* entries that nobody has refreshed in time */

byte  promised[HOLDS + 2];      /* what executed statements promised each hold: P1 counts these, not the row */
bool  excused[HOLDS + 1];       /* held when the clock was set forward, or ended by force */
bool  passed[HOLDS + 1];        /* an entry has one turn */
bool  stepped;

mtype = { none, away, there, granted, placed, alive, gone, mine, others };
typedef Statement { mtype at = none; byte left; byte next = NOBODY }
Statement stand[HOLDS], leave[HOLDS], renew[HOLDS], advance;
mtype stand_answer[HOLDS] = none, renew_answer[HOLDS] = none;

byte  hold[CLIENTS];            /* the ID of the present attempt */
bool  holds[CLIENTS];           /* the caller has a lease whose end nobody has noticed */
byte  trust[CLIENTS];           /* time to the trust deadline, by the client's clock */
byte  next_trust[CLIENTS];      /* to the one that the renewal under way would give */
mtype look[CLIENTS] = none;     /* away, or what it read */
byte  look_left[CLIENTS];       /* what was left of the hold when it read it */
byte  look_age[CLIENTS];        /* since it was sent; as long as a TTL and more are the same */
#ifdef NOT_SEEN
byte  not_seen[CLIENTS] = TTL;  /* since the last look was sent that did not see the key passed to us */
#endif
byte  calm;                     /* until client 0's clock may lose another tick */

#define promise(ok, words) if :: ok :: else -> printf(words); assert(false) fi
#define says_held(c) (holds[c] && trust[c] > 0) /* what Err would say now */

/* ---- the line ---- */

inline position(h) { /* at: where h stands, or standing */
	at = 0;
	do :: at < standing && line[at] != h -> at++ :: else -> break od
}

inline append(h) {
	line[standing] = h; standing++; dead[h] = false; passed[h] = false
}

inline take_out(h) {
	position(h);
	if
	:: at < standing ->
		do :: at + 1 < standing -> line[at] = line[at + 1]; at++ :: else -> break od;
		standing--; line[standing] = NOBODY
	:: else
	fi;
	at = 0; dead[h] = false
}

/* stands: whether anybody does who is not dead */
inline look_for_living() {
	at = 0; living = false;
	do :: at < standing -> if :: !dead[line[at]] -> living = true :: else fi; at++ :: else -> break od;
	at = 0
}

/* ---- the database ---- */

#define waited(s) (BOUND - s.left)

inline grant(h, ttl) { /* h stands no more before it is called */
	row_hold = h; row_left = ttl; promised[h] = ttl
}

/* The first who is alive gets the key, and those before it are forgotten. */
inline pass_on(ttl) {
	row_hold = NOBODY; row_left = -BOUND;
	do
	:: standing > 0 && dead[line[0]] -> at = 0; who = line[0]; take_out(who)
	:: else -> break
	od;
	if
	:: standing > 0 ->
#ifdef LAST_FIRST
		who = line[standing - 1];
#else
		who = line[0];
#endif
#ifndef STAYS
		take_out(who);
#endif
		look_for_living();
#ifdef LAST_FIRST
		promise(!living, "@ P29 broken: served before one who has stood longer\n");
#endif
		promise(!passed[who], "@ P29 broken: two turns for one entry\n");
		passed[who] = true;
		grant(who, ttl);
		printf("@ server: passed to hold %d, for %d\n", who, ttl)
	:: else
	fi;
	who = 0; living = false
}

#ifdef BARGES
#define FREE(s) (row_left <= -waited(s))
#else
#define FREE(s) (row_left <= -waited(s) && !living)
#endif

inline do_stand(s, h) {
	look_for_living();
	position(h);
	if
	:: row_hold == h || at < standing ->
		stand_answer[h] = placed;
#ifdef RENEWS
		if
		:: row_hold == h -> printf("@ server: hold %d has the key already\n", h)
		:: else -> printf("@ server: hold %d stands already\n", h)
		fi;
#endif
#ifdef MOVES
		if
		:: row_hold != h ->
			who = at; take_out(h); append(h); position(h);
			promise(at == who, "@ P29 broken: a repeated stand lost its place\n")
		:: else
		fi
#endif
	:: row_hold != h && at == standing && FREE(s) ->
		promise(!living, "@ P29 broken: served before one who stands\n");
		do :: standing > 0 -> who = line[0]; take_out(who) :: else -> break od;
		grant(h, TTL - waited(s)); stand_answer[h] = granted;
		printf("@ server: hold %d is granted the free key\n", h)
	:: else ->
		append(h); stand_answer[h] = placed;
		printf("@ server: hold %d stands\n", h)
	fi;
	at = 0; who = 0; living = false
}

inline do_leave(s, h) {
#ifdef BY_KEY
	if :: row_hold != NOBODY && row_left > 0 ->
#else
	if :: row_hold == h ->
#endif
		promise(row_hold == h, "@ P5 broken: a stale statement ends the hold of another\n");
		promised[h] = 0;
		printf("@ server: hold %d is released\n", h);
#ifdef NEXT
		if
		:: s.next != NOBODY ->
			position(s.next);
			if :: at == standing -> append(s.next); printf("@ server: hold %d stands by the same statement\n", s.next) :: else fi;
			stand_answer[s.next] = placed
		:: else
		fi;
#endif
		pass_on(CLAIM - waited(s))
	:: else -> take_out(h); printf("@ server: hold %d stands no more\n", h)
	fi;
	at = 0
}

#ifdef RENEWS
inline do_renew(s, h) {
	if
	:: row_hold == h ->
		if :: TTL - waited(s) > row_left -> row_left = TTL - waited(s) :: else fi;
		if :: TTL - waited(s) > promised[h] -> promised[h] = TTL - waited(s) :: else fi;
		renew_answer[h] = alive
	:: else -> renew_answer[h] = gone
	fi;
	printf("@ server: renewal of hold %d: %e\n", h, renew_answer[h])
}
#endif

/* Anybody who saw the key free, or the hold over, sends it: any number, at any time. */
inline do_advance(s) {
#ifdef BLIND /* what the sender saw is enough */
	if :: standing > 0 ->
#else
	if :: standing > 0 && row_left <= -waited(s) ->
#endif
		printf("@ server: advance\n");
		pass_on(CLAIM - waited(s))
	:: else
	fi
}

/* The way of a statement. */
#define WAY(s, execute) \
	byte at, who; bool living; \
	do \
	:: d_step { s.at == away -> s.at = none; s.left = 0; s.next = NOBODY; printf("@ network: a statement is lost\n") } \
	:: d_step { s.at == away -> s.at = there; s.left = BOUND } \
	:: d_step { s.at == there -> execute; s.at = none; s.left = 0; s.next = NOBODY } \
	od

proctype Stand(byte h) { WAY(stand[h], do_stand(stand[h], h)) }
proctype Leave(byte h) { WAY(leave[h], do_leave(leave[h], h)) }
#ifdef RENEWS
proctype Renew(byte h) { WAY(renew[h], do_renew(renew[h], h)) }
#define run_renew(h) run Renew(h)
#else
#define run_renew(h) skip
#endif

proctype Advance() {
	byte at, who; bool living;
	do
	:: d_step { advance.at == none && standing > 0 -> advance.at = there; advance.left = BOUND }
	:: d_step { advance.at == there -> do_advance(advance); advance.at = none; advance.left = 0 }
	od
}

inline read(c) {
	if
	:: row_hold == hold[c] && row_left > 0 -> look[c] = mine; look_left[c] = (row_left > TTL -> TTL : row_left)
	:: row_hold == hold[c] && row_left <= 0 -> look[c] = gone
	:: row_hold != hold[c] ->
		look[c] = gone;
		if :: line[0] == hold[c] -> look[c] = others :: else fi;
		if :: line[1] == hold[c] -> look[c] = others :: else fi;
		if :: line[2] == hold[c] -> look[c] = others :: else fi
	fi;
	printf("@ server: client %d's look reads: %e, %d left\n", c, look[c], look_left[c])
}

/* Entries that nobody refreshes, and the moment at which a look reads. */
proctype Database() {
	byte i;
	do
	:: d_step { standing > 0 && !dead[line[0]] -> dead[line[0]] = true; printf("@ the first entry of the line is dead\n") }
	:: d_step { standing > 1 && !dead[line[1]] -> dead[line[1]] = true; printf("@ the second entry of the line is dead\n") }
	:: d_step { look[0] == away -> i = 0; read(i) }
#if CLIENTS > 1
	:: d_step { look[1] == away -> i = 1; read(i); i = 0 }
#endif
#ifdef BACK
	:: d_step { !stepped && row_hold != NOBODY -> stepped = true; row_left = row_left + CLAIM; printf("@ the server's clock is set back\n") }
#endif
#ifdef FORWARD
	:: d_step { !stepped && row_hold != NOBODY -> stepped = true; row_left = -BOUND;
			do :: i <= HOLDS -> excused[i] = true; promised[i] = 0; i++ :: else -> break od; i = 0;
			printf("@ the server's clock is set forward\n") }
#endif
#ifdef FORCE
	:: d_step { !stepped && row_hold != NOBODY -> stepped = true; excused[row_hold] = true; promised[row_hold] = 0;
			row_hold = NOBODY; row_left = -BOUND; printf("@ the hold is ended by force\n") }
#endif
	od
}

/* ---- time: goes on only when nothing is overdue ---- */

inline older(s)    { if :: s.at != none -> s.left-- :: else fi }
#define on_time(s) (s.at == none || s.left > 0)

inline tick() {
	i = 0;
	do
	:: i < HOLDS -> older(stand[i]); older(leave[i]); older(renew[i]); i++
	:: else -> break
	od;
	older(advance);
	i = 0;
	do
	:: i <= HOLDS -> if :: promised[i] > 0 -> promised[i]-- :: else fi; i++
	:: else -> break
	od;
	if :: row_left > -BOUND -> row_left-- :: else fi;
	i = 0;
	do
	:: i < CLIENTS ->
		if :: lag && i == 0 -> skip
		:: else ->
			if :: trust[i] > 0 -> trust[i]-- :: else fi;
			if :: next_trust[i] > 0 -> next_trust[i]-- :: else fi;
			if :: look[i] != none && look_age[i] < TTL -> look_age[i]++ :: else fi;
#ifdef NOT_SEEN
			if :: not_seen[i] < TTL -> not_seen[i]++ :: else fi
#endif
		fi;
		i++
	:: else -> break
	od;
	if :: lag -> calm = TTL :: calm > 0 && !lag -> calm-- :: else fi;
	i = 0; lag = false;
	printf("@ tick\n")
}

#define may_tick ( \
	on_time(stand[0]) && on_time(leave[0]) && on_time(renew[0]) && \
	on_time(stand[1]) && on_time(leave[1]) && on_time(renew[1]) && on_time(advance))

proctype Clock() {
	byte i; bool lag;
	do
	:: d_step { may_tick -> tick() }
#ifdef LAG
	:: d_step { may_tick && calm == 0 && (trust[0] > 0 || look[0] != none) -> lag = true; printf("@ the clock of client 0 loses a tick\n"); tick() }
#endif
	od
}

/* ---- a client ---- */

#define in_line(h) (line[0] == h || line[1] == h || line[2] == h)
#define unused(h)  (stand[h].at == none && leave[h].at == none && renew[h].at == none && !in_line(h) && \
	!(row_hold == h && row_left > -BOUND) && no_next(h))
#define no_next(h) (leave[0].next != h && leave[1].next != h)

inline send(s) { s.at = away; s.left = DELAY }

inline fresh(h) {
	if :: row_hold == h -> row_hold = NOBODY; row_left = -BOUND :: else fi;
	stand_answer[h] = none; renew_answer[h] = none; excused[h] = false
}

inline forget_look() { look[c] = none; look_left[c] = 0; look_age[c] = 0 }

proctype Client(byte c; byte first; byte last) {
	bool renewing, sent, again;
	byte before = NOBODY; /* the hold whose release has put us in the line */
#define h hold[c]
	do
	:: d_step {
			unused(first) || unused(last) ->
			h = (unused(first) -> first : last);
			fresh(h);
			trust[c] = TTL - MARGIN;
			before = NOBODY;
			printf("@ client %d: attempt with hold %d, clock read\n", c, h)
		}
		d_step { send(stand[h]); printf("@ client %d: stand of hold %d leaves\n", c, h) }
		if
		:: d_step { stand_answer[h] == granted && trust[c] > 0 ->
				holds[c] = true;
				printf("@ client %d: has the lease of hold %d, trusted for %d\n", c, h, trust[c]) }
			goto having
		:: d_step { stand_answer[h] == placed -> trust[c] = 0 }
		:: true -> /* no answer in time, or a lost connection: unknown */
			goto undo
		fi;

waiting:	do
		:: d_step { look[c] == none -> look[c] = away; look_left[c] = 0; look_age[c] = 0; printf("@ client %d: a look leaves\n", c) }
		:: d_step { look[c] == others -> /* stands still */
#ifdef NOT_SEEN
				not_seen[c] = look_age[c];
#endif
				forget_look() }
#ifdef NOT_SEEN /* a stream tells that the key was passed to us */
		:: d_step { row_hold == h && row_left > 0 && not_seen[c] < CLAIM - MARGIN ->
				holds[c] = true; trust[c] = CLAIM - MARGIN - not_seen[c]; not_seen[c] = TTL; forget_look();
				printf("@ client %d: hears of the pass, trusts hold %d for %d\n", c, h, trust[c]) }
			goto having
#endif
#ifdef WHOLE_TTL
#define TRUST(c) (TTL - MARGIN - look_age[c])
#else
#ifdef FROM_REPLY
#define TRUST(c) (look_left[c] - MARGIN)
#else
#define TRUST(c) (look_left[c] - MARGIN - look_age[c])
#endif
#endif
		:: d_step { look[c] == mine && TRUST(c) > 0 ->
				holds[c] = true; trust[c] = TRUST(c); forget_look();
				printf("@ client %d: sees that the key was passed, trusts hold %d for %d\n", c, h, trust[c]) }
			goto having
		:: d_step { look[c] == mine && TRUST(c) <= 0 -> forget_look();
				printf("@ client %d: too little is left of hold %d, renews first\n", c, h) }
#ifdef RENEWS
			if
			:: d_step { renew[h].at == none -> renew_answer[h] = none; next_trust[c] = TTL - MARGIN }
				d_step { send(renew[h]) }
				if
				:: d_step { renew_answer[h] == alive && next_trust[c] > 0 ->
						holds[c] = true; trust[c] = next_trust[c]; next_trust[c] = 0;
						printf("@ client %d: renewed, trusts hold %d for %d\n", c, h, trust[c]) }
					goto having
				:: true -> next_trust[c] = 0; goto undo
				fi
			:: true -> goto undo
			fi
#else
			goto undo
#endif
#ifdef RENEWS
		:: d_step { stand[h].at == none -> send(stand[h]); printf("@ client %d: stand of hold %d leaves once more\n", c, h) }
#endif
		:: d_step { look[c] == gone -> forget_look(); printf("@ client %d: stands no more\n", c) }
			goto undo
#ifdef NEXT
		:: d_step { before != NOBODY && leave[before].at == none && leave[1 - before].next == NOBODY ->
				leave[before].next = h; send(leave[before]); printf("@ client %d: the release is sent again\n", c) }
#endif
		:: true -> /* gives up */
			goto undo
		od;

having:		do
#ifdef RENEWS
		:: d_step { says_held(c) && !renewing && renew[h].at == none ->
				renewing = true; sent = false; renew_answer[h] = none;
				next_trust[c] = TTL - MARGIN } /* the clock is read */
		:: d_step { renewing && !sent -> send(renew[h]); sent = true; printf("@ client %d: a renewal of hold %d leaves\n", c, h) }
		:: d_step { renewing && sent && renew_answer[h] == alive ->
				if :: says_held(c) && next_trust[c] > trust[c] -> trust[c] = next_trust[c] :: else fi;
				renewing = false; sent = false; next_trust[c] = 0 }
		:: d_step { renewing && sent && renew_answer[h] == gone -> trust[c] = 0; printf("@ client %d: hears that its hold is gone\n", c) }
			break
		:: d_step { renewing && sent -> renewing = false; sent = false; next_trust[c] = 0 } /* given up */
#endif
		:: d_step { !says_held(c) -> printf("@ client %d: looks at Err, and has lost hold %d\n", c, h) }
			break
#ifdef NEXT
		:: d_step { unused(1 - h) && leave[h].at == none -> again = true } /* another caller waits here */
			break
#endif
		:: true -> /* the caller releases */
			break
		od;
undo:		atomic { /* Err says so before the statement leaves */
			holds[c] = false; trust[c] = 0; next_trust[c] = 0; renewing = false; sent = false; forget_look();
			printf("@ client %d: lets go of hold %d\n", c, h)
		}
#ifdef NEXT
		if
		:: d_step { again -> /* the release stands anew in the same statement */
				again = false; fresh(1 - h); before = h; h = 1 - h;
				leave[before].next = h; send(leave[before]);
				printf("@ client %d: hold %d stands by the release of hold %d\n", c, h, before) }
			goto waiting
		:: !again
		fi;
#endif
		do
		:: d_step { leave[h].at == none -> send(leave[h]) } /* and again, or never */
		:: true -> break
		od
	od
#undef h
}

#if defined(NEXT) || defined(ONE) || defined(THREE)
inline do_rival_stand() {
	look_for_living();
	position(RIVAL);
	if
	:: at < standing
	:: at == standing && FREE(s) ->
		promise(!living, "@ P29 broken: served before one who stands\n");
		do :: standing > 0 -> who = line[0]; take_out(who) :: else -> break od;
		grant(RIVAL, TTL); printf("@ the rival is granted the free key\n")
	:: else -> append(RIVAL); printf("@ the rival stands\n")
	fi;
	at = 0; who = 0; living = false
}

/* Another program, whose statements arrive at once: what a late one of its could do
 * to us, one of ours can do to it. */
proctype Rival() {
	byte at, who; bool living;
	Statement s;
	s.left = BOUND;
	do
	:: d_step { row_hold != RIVAL -> do_rival_stand() }
	:: d_step { do_leave(s, RIVAL) }
	:: d_step { row_hold == RIVAL -> row_left = TTL; promised[RIVAL] = TTL }
	od
}
#endif

/* ---- promises ---- */

#define P1 ((promised[0] > 0) + (promised[1] > 0) + (promised[RIVAL] > 0) <= 1)
/* The database may grant the key as soon as this is false for the holder: */
#define kept_for(c) (row_hold == hold[c] && row_left > 0 || excused[hold[c]])
#define P2 ((says_held(0) -> kept_for(0) : true) && (says_held(CLIENTS - 1) -> kept_for(CLIENTS - 1) : true))

active proctype Promises() {
	if
	:: atomic { !P1 -> printf("@ P1 broken: two holds unexpired\n"); assert(false) }
	:: atomic { !P2 -> printf("@ P2 broken: Err is nil, and the key may be granted to another\n"); assert(false) }
	fi
}

init {
	byte i;
	atomic {
		do
		:: i < HOLDS -> run Stand(i); run Leave(i); run_renew(i); i++
		:: else -> break
		od;
		i = 0;
		run Clock(); run Advance(); run Database();
#ifdef NEXT
		run Client(0, 0, 1);
#else
		run Client(0, 0, 0);
#if CLIENTS > 1
		run Client(1, 1, 1);
#endif
#endif
#if CLIENTS == 1 || defined(THREE)
		run Rival()
#endif
	}
}
