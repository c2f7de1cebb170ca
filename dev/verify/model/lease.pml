/*
 * lease.pml: one key, leases in time. P1, P2, P5.
 *
 * Kept: the database's row and clock; statements that the network delays by up to
 * one TTL or loses, that then wait for a row lock, and that count with the time
 * at which they arrived, not at which they got the row; answers that come late or
 * never; clients that renew, lose, release and try again, each of which may stop at any
 * step (nobody here is ever made to go on), and a client clock that loses a tick
 * now and then (one in a TTL), which is what the margin is for.
 *
 * Left out: tokens (handoff.pml), guards (guard.pml, fence.pml), when to stop
 * undoing (undo.pml: here releases are repeated or not, as chance has it).
 *
 * Times are what is left, not dates, and a hold ID is used again when no statement
 * names it any more (in the database such a hold is nobody's: OLD). So neither
 * time nor the number of attempts has a bound.
 *
 * Wrong variants: FROM_REPLY, SHORTENS, NO_MARGIN, BY_KEY, REVIVES. They may take
 * NO_LAG, for a shorter story.
 */
#ifndef TTL
#define TTL    4
#endif
#define SHORT  2 /* what a renewal shortened by MaxHold asks for, where that takes no trust away */
#define DELAY  TTL
#define BOUND  1 /* the longest wait for a row lock */
#ifdef NO_MARGIN
#define MARGIN 0
#else
#define MARGIN 1
#endif

#define HOLDS   2 /* IDs with statements under way */
#define OLD     2
#define RIVAL   3
#define NOBODY  4
/* Three small runs instead of a large one:
 *	          one client with one ID, renewals with ghosts, a clock that lags
 *	NEXT      one client with two IDs: late statements of an attempt meet the next one
 *	TWO       two such clients, with an ID each
 * and, but for TWO, rivals. */
#ifdef TWO
#define CLIENTS 2
#else
#define CLIENTS 1
#endif
#ifdef NEXT
#define LAST 1
#else
#define LAST 0
#endif
#if defined(NEXT) || defined(TWO)
#define GHOST false
#define NO_LAG
#else
#define GHOST true
#endif

/* The row. left is the time to its expiry; not above 0: free. A release makes it
 * free since ever. */
byte  row_hold = NOBODY;
bool  row_live;
short row_left = -BOUND;

/* What executed statements promised each hold: P1 counts these, not the row. */
byte promised[NOBODY];

/* A statement: on its way (left: until it must arrive), then at the server (left:
 * until it must have its row). */
mtype = { none, away, there, granted, held, alive, gone };
typedef Statement { mtype at = none; byte left; byte ask; mtype answer = none }
Statement acquire[HOLDS], release[HOLDS], renew[2 * HOLDS]; /* two renewals: one may be a ghost */

byte hold[CLIENTS];            /* the ID of the present attempt */
bool holds[CLIENTS];           /* the caller has a lease whose end nobody has noticed */
byte trust[CLIENTS];           /* time to the trust deadline, by the client's clock */
byte next_trust[CLIENTS];      /* to the one that the renewal under way would give */
byte calm;                     /* until client 0's clock may lose another tick */

#define promise(ok, words) if :: ok :: else -> printf(words); assert(false) fi

#define unused(h)  (acquire[h].at == none && release[h].at == none && renew[2*(h)].at == none && renew[2*(h)+1].at == none)
#define says_held(c) (holds[c] && trust[c] > 0) /* what Err would say now */

inline send(s, ttl) { s.at = away; s.left = DELAY; s.ask = ttl; s.answer = none }

/* ---- the network and the database ---- */

#define waited(s) (BOUND - s.left)

inline do_acquire(s, h) {
	if
	:: row_hold == h && row_live -> s.answer = granted
	:: !(row_hold == h && row_live) && row_left <= -waited(s) ->
		row_hold = h; row_live = true; row_left = s.ask - waited(s);
		promised[h] = s.ask - waited(s);
		s.answer = granted
	:: else -> s.answer = held
	fi;
	printf("@ server: acquire of hold %d: %e\n", h, s.answer)
}

inline do_renew(s, h) {
#ifdef REVIVES
	if :: row_hold == h ->
#else
	if :: row_hold == h && row_live ->
#endif
		promise(row_hold == h && row_live, "@ P5 broken: a stale statement changes the row\n");
#ifdef SHORTENS
		row_left = s.ask - waited(s);
#else
		if :: s.ask - waited(s) > row_left -> row_left = s.ask - waited(s) :: else fi;
#endif
		if :: s.ask - waited(s) > promised[h] -> promised[h] = s.ask - waited(s) :: else fi;
		s.answer = alive
	:: else -> s.answer = gone
	fi;
	printf("@ server: renewal of hold %d by %d: %e, row ends in %d\n", h, s.ask, s.answer, row_left)
}

inline do_release(s, h) {
#ifdef BY_KEY
	if :: row_live ->
#else
	if :: row_hold == h && row_live ->
#endif
		promise(row_hold == h && row_live, "@ P5 broken: a stale statement changes the row\n");
		row_live = false; row_left = -BOUND; promised[h] = 0;
		printf("@ server: release of hold %d\n", h)
	:: else -> printf("@ server: release of hold %d finds nothing\n", h)
	fi
}

/* The way of a statement. */
#define WAY(s, execute) \
	do \
	:: d_step { s.at == away -> s.at = none; s.left = 0; s.ask = 0; printf("@ network: a statement of hold %d is lost\n", h) } \
	:: d_step { s.at == away -> s.at = there; s.left = BOUND } \
	:: d_step { s.at == there -> execute; s.at = none; s.left = 0; s.ask = 0 } \
	od

proctype Acquire(byte h) { WAY(acquire[h], do_acquire(acquire[h], h)) }
proctype Release(byte h) { WAY(release[h], do_release(release[h], h)) }
proctype Renew(byte n)   { byte h = n / 2; WAY(renew[n], do_renew(renew[n], h)) }

/* ---- time: goes on only when nothing is overdue ---- */

inline older(s)    { if :: s.at != none -> s.left-- :: else fi }
#define on_time(s) (s.at == none || s.left > 0)

inline tick() {
	i = 0;
	do
	:: i < HOLDS -> older(acquire[i]); older(release[i]); older(renew[2*i]); older(renew[2*i+1]); i++
	:: else -> break
	od;
	i = 0;
	do
	:: i < NOBODY -> if :: promised[i] > 0 -> promised[i]-- :: else fi; i++
	:: else -> break
	od;
	if :: row_left > -BOUND -> row_left-- :: else fi;
	i = 0;
	do
	:: i < CLIENTS ->
		if :: lag && i == 0 -> skip
		:: else ->
			if :: trust[i] > 0 -> trust[i]-- :: else fi;
			if :: next_trust[i] > 0 -> next_trust[i]-- :: else fi
		fi;
		i++
	:: else -> break
	od;
	if :: lag -> calm = TTL :: calm > 0 && !lag -> calm-- :: else fi;
	i = 0; lag = false;
	printf("@ tick\n")
}

#define may_tick ( \
	on_time(acquire[0]) && on_time(release[0]) && on_time(renew[0]) && on_time(renew[1]) && \
	on_time(acquire[1]) && on_time(release[1]) && on_time(renew[2]) && on_time(renew[3]))

proctype Clock() {
	byte i; bool lag;
	do
	:: d_step { may_tick -> tick() }
#ifndef NO_LAG
	:: d_step { may_tick && calm == 0 && trust[0] > 0 -> lag = true; printf("@ the clock of client 0 loses a tick\n"); tick() }
#endif
	od
}

/* ---- a client ---- */

inline fresh(h) {
	if
	:: row_hold == h -> row_hold = OLD; promised[OLD] = promised[h]; promised[h] = 0
	:: else
	fi;
	acquire[h].answer = none; release[h].answer = none; renew[2*h].answer = none; renew[2*h+1].answer = none
}

/* from: where the trust of an acknowledged statement is counted from */
#ifdef FROM_REPLY
#define TRUST(counted, ask) (ask - MARGIN)
#else
#define TRUST(counted, ask) counted
#endif

proctype Client(byte c; byte first; byte last) {
	byte n;    /* the renewal under way: its number, or 0 with renewing == false */
	bool renewing, sent; byte ask;
#define h hold[c]
	do
	:: /* an attempt: the clock is read, then the statement leaves, then the answer comes or does not */
		d_step {
			unused(first) || unused(last) ->
			h = (unused(first) -> first : last);
			fresh(h);
			trust[c] = TTL - MARGIN;
			printf("@ client %d: attempt with hold %d, clock read\n", c, h)
		}
		d_step { send(acquire[h], TTL); printf("@ client %d: acquire of hold %d leaves\n", c, h) }
		if
		:: d_step { acquire[h].answer == granted && TRUST(trust[c], TTL) > 0 ->
				trust[c] = TRUST(trust[c], TTL); holds[c] = true;
				printf("@ client %d: has the lease of hold %d, trusted for %d\n", c, h, trust[c]) }
		:: d_step { acquire[h].answer == held -> trust[c] = 0 }
			goto over
		:: true -> /* no answer in time, or a lost connection: unknown */
			goto undo
		fi;

		do
		:: d_step { says_held(c) && !renewing && (renew[2*h].at == none || GHOST && renew[2*h+1].at == none) ->
				n = (renew[2*h].at == none -> 2*h : 2*h+1);
				renewing = true; sent = false }
			if /* the clock is read */
			:: d_step { ask = TTL; next_trust[c] = TTL - MARGIN }
			:: d_step { SHORT - MARGIN >= trust[c] -> ask = SHORT; next_trust[c] = SHORT - MARGIN }
			fi
		:: d_step { renewing && !sent -> send(renew[n], ask); sent = true; printf("@ client %d: a renewal of hold %d by %d leaves\n", c, h, ask) }
		:: d_step { renewing && sent && renew[n].answer == alive ->
				if :: says_held(c) && TRUST(next_trust[c], ask) > trust[c] -> trust[c] = TRUST(next_trust[c], ask) :: else fi;
				renewing = false; sent = false; ask = 0; next_trust[c] = 0; n = 0;
				printf("@ client %d: hears that the renewal came, trusts hold %d for %d\n", c, h, trust[c]) }
		:: d_step { renewing && sent && renew[n].answer == gone -> trust[c] = 0; printf("@ client %d: hears that its hold is gone\n", c) }
			break
		:: d_step { renewing && sent -> /* given up: it may still arrive, as a ghost */
				renewing = false; sent = false; ask = 0; next_trust[c] = 0; n = 0 }
		:: d_step { !says_held(c) -> printf("@ client %d: looks, and has lost hold %d\n", c, h) }
			break
		:: true -> /* the caller releases */
			break
		od;
undo:	atomic { /* Err says so before the statement leaves */
			holds[c] = false; trust[c] = 0; next_trust[c] = 0; renewing = false; sent = false; ask = 0; n = 0;
			printf("@ client %d: lets go of hold %d\n", c, h)
		}
		do
		:: d_step { release[h].at == none -> send(release[h], 0) } /* and again, or never */
		:: true -> break
		od;
over:	skip
	od
#undef h
}

#ifndef TWO
/* Others, any number of them. Theirs arrives at once: what a late statement of
 * theirs could do to us, one of ours can do to them. */
proctype Rivals() {
	do
	:: d_step { row_left <= 0 -> row_hold = RIVAL; row_live = true; row_left = TTL; promised[RIVAL] = TTL; printf("@ a rival takes the key\n") }
	:: d_step { row_hold == RIVAL && row_live -> row_left = TTL; promised[RIVAL] = TTL }
	:: d_step { row_hold == RIVAL && row_live -> row_live = false; row_left = -BOUND; promised[RIVAL] = 0; printf("@ the rival releases\n") }
	od
}
#endif

/* ---- promises ---- */

#ifdef SHORTENS /* breaks P1 sooner; P2 is the better story */
#define P1 true
#else
#define P1 ((promised[0] > 0) + (promised[1] > 0) + (promised[OLD] > 0) + (promised[RIVAL] > 0) <= 1)
#endif
/* The database may grant the key as soon as this is false for the holder: */
#define kept_for(c) (row_hold == hold[c] && row_live && row_left > 0)
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
		:: i < HOLDS -> run Acquire(i); run Release(i); run Renew(2*i); run Renew(2*i+1); i++
		:: else -> break
		od;
		i = 0;
		run Clock();
#ifdef TWO
		run Client(0, 0, 0);
		run Client(1, 1, 1)
#else
		run Client(0, 0, LAST);
		run Rivals()
#endif
	}
}
