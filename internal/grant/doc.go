// Package grant keeps what the database granted to a client.
//
// A grant is one hold as the database knows it: it has the hold ID, the stored token and
// the trust deadline, it is renewed, and it ends. A lease is one caller's handle on it,
// a [User] here. Released by one caller, a grant may pass to the next caller of the same
// client in memory (handoff): it goes on, with its renewals and their outcomes, and the
// next caller gets a token and a handle of its own.
//
//	        ┌── HandOff: to the next user
//	        │  ┌── a renewal was acknowledged: the deadline moves
//	        ▼  ▼
//	Add ──▶ USED ──Release──▶ RELEASING ──answer──▶ over
//	        │                     └─unanswered──▶ undone in the background
//	        │
//	        ├─ the deadline passed ──────────────▶ LOST expired, max-hold ─▶ undone after the margin
//	        ├─ the database says so ─────────────▶ LOST taken, removed, forced
//	        ├─ the client is closed ─────────────▶ LOST closed ─▶ undone
//	        ├─ Close gave up waiting for a holder▶ LOST closed; its TTL frees the key
//	        └─ no caller wants it ───────────────▶ undone
//
// A grant of a reader may have several users at a time, which join it in memory ([Grant.Join]):
// each leaves it alone, and the release of the last is that of the grant.
//
// Every arrow that leaves USED is [Grant.End] or [Grant.Release], and one is taken once. The
// user is told before any statement leaves. A renewal that is on its way when the
// grant passes on belongs to the grant: its answer moves the grant's deadline, or ends it.
//
// grant.go has a grant, its ends and what follows from them ([Grant.after]), and the handoff;
// users.go several users; renewer.go the goroutine that starts renewals and ends grants; renewal.go one renewal on its
// way; release.go the release; answers.go what observers are told. A new reason of a loss is a [Reason], a case of after, and a
// rowlock.Reason.
//
// Locks, in the order in which they are taken: Grant.mu, then that of a User; Renewer.mu,
// then Grant.mu. Neither is held while a statement runs.
package grant
