package session

import (
	"context"
	"errors"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/mysql/internal/conn"
	"github.com/rowlock/rowlock/mysql/internal/row"
)

// beginning is the beginning of a phase by one request.
type beginning struct {
	f       *ForUpdate
	c       *conn.Conn
	r       *driver.Request
	session *conn.Conn  // has the row locked, shared; nil: none does
	locked  bool        // t0 was read on it, after it had the lock
	t0      int64       // the token of the lease row
	wanted  driver.Hint // as last seen
}

// begin begins the phase of a key, if no session has its row locked and MinHold does not keep
// it:
//
//	(1)  lock the row, shared and without waiting, and read the lease row's token t0: one
//	     statement, at whose end the lock is gone
//	(2)  write the phase into the lease row where the token is still t0
//
// Nobody has the key at (1). Whoever takes it between the two has raised the token, so that
// (2) changes nothing; and whoever locks the row there, but has not written it, finds another
// token than it has read, and then the phase. So (2) is right although nothing is locked any
// more, also when it comes late. It waits for the guarded transactions of the hold before, and
// is bounded like any takeover.
func (b *beginning) begin(ctx context.Context) (result driver.Result, found bool, err error) {
	if b.session != nil {
		if err := b.f.sameServer(b.session, b.c, b.r.Key); err != nil {
			return result, false, err
		}
	}
	for changed := 0; changed < 5; changed++ {
		if !b.locked {
			result, found, err = b.readUnlocked(ctx)
			if err != nil || found || result.Err != nil || result.Status != driver.Unknown {
				return result, found, err
			}
		}
		b.locked = false
		if b.t0 == inAPhase {
			return driver.Result{}, true, nil
		}
		if why := row.TokensUsedUp(b.t0); why != "" {
			return driver.Result{Err: b.f.lease.CorruptError("acquire", b.r.Key, why, true)}, false, nil
		}
		switch written, pinned, err := b.write(ctx); {
		case row.IsCorrupt(err):
			return driver.Result{Err: b.f.lease.CorruptError("acquire", b.r.Key, err.Error(), true)}, false, nil
		case err != nil, written:
			return driver.Result{}, false, err
		case pinned:
			return driver.Result{Status: driver.Pinned}, false, nil
		}
		switch p, ok, err := b.f.readRow(ctx, b.c, b.r.Key); {
		case err != nil:
			return driver.Result{}, false, err
		case ok && p.phase:
			return driver.Result{}, true, nil
		case ok && p.kept > 0:
			b.wanted = p.wanted
			return driver.Result{Status: driver.Held, Left: p.kept, Owner: p.owner}, false, nil
		case ok:
			held, err := elsewhere(ctx, b.c, p.run, p.left)
			if err != nil {
				return result, false, err
			}
			if held {
				b.wanted = p.wanted
				return driver.Result{Status: driver.Held, Left: p.left, Owner: p.owner}, false, nil
			}
		}
	}
	return driver.Result{Err: errChanging(b.f, b.r.Key)}, false, nil
}

// readUnlocked is (1). A refusal that met another attempt, and no holder, is tried some times
// more. Unknown, not found and without an error: nobody has the key.
func (b *beginning) readUnlocked(ctx context.Context) (result driver.Result, found bool, err error) {
	refused, made := 0, 0
	for {
		sent := time.Now()
		tokens, err := conn.Query(ctx, b.c, 0, b.f.shareRow(b.r.Key)+" NOWAIT", conn.ScanOne[conn.Int])
		switch {
		case conn.Number(err) == conn.ErNoWait, errors.Is(err, conn.ErrBlocked):
			p, ok, err := b.f.readRow(ctx, b.c, b.r.Key)
			if err != nil {
				return result, false, err
			}
			if ok && p.phase {
				return result, true, nil
			}
			left := p.remains()
			if b.wanted, refused = p.wanted, refused+1; left > 0 || refused == len(refusedPauses) || waitedForTable(sent) {
				return driver.Result{Status: driver.Held, Left: left, Owner: p.holder()}, false, nil
			}
			if !conn.Pause(ctx, refusedPauses[refused]) {
				return result, false, ctx.Err()
			}
		case err != nil:
			return result, false, err
		default:
			if token, ok := tokenIn(tokens); ok {
				b.t0 = token
				return result, false, nil
			}
			if made++; made == 5 {
				return driver.Result{Err: errVanishing(b.r.Key)}, false, nil
			}
			missing := []string{b.f.CreateLease(b.r.Key)}
			if len(tokens) == 0 {
				missing = append(missing, b.f.CreateRow(b.r.Key))
			}
			for _, statement := range missing {
				if _, err := b.c.Exec(ctx, b.f.db.Bound(0), statement); err != nil && !errors.Is(err, conn.ErrBlocked) {
					return result, false, err
				}
			}
		}
	}
}

// Write is (2). pinned: a guarded transaction keeps the lease row's token.
func (b *beginning) write(ctx context.Context) (written, pinned bool, err error) {
	run, err := b.c.Run(ctx)
	if err != nil {
		return false, false, err
	}
	look, _ := b.f.lookFirst.required()
	look = look || b.r.Pinned
	bound := time.Duration(0) // of the statement that was blocked last
	for try := 0; try < len(conn.Bounds); try++ {
		if look {
			if pinned, err := b.pinned(ctx); err != nil || pinned {
				return false, pinned, err
			}
			if bound > 0 { // no lock was found
				b.f.db.NoteAnswer(bound)
			}
		}
		bound = b.f.db.Bound(try)
		res, err := b.c.ExecOne(ctx, bound, b.f.beginPhase(b.r, run, b.t0))
		if errors.Is(err, conn.ErrBlocked) {
			b.f.lookFirst.blocked()
			if row.Waited(err) {
				break // it took a second
			}
			look = true
			continue
		}
		if err != nil {
			return false, false, err
		}
		n, err := res.RowsAffected()
		return n == 1, false, err
	}
	return false, true, nil
}

// pinned asks without waiting whether a transaction has locked the guard entry. An attempt of
// another client may have, for a moment: so it asks twice.
func (b *beginning) pinned(ctx context.Context) (bool, error) {
	for try := 1; ; try++ {
		unlocked, err := b.f.lease.Unlocked(ctx, b.c, []row.Row{{Key: b.r.Key, Token: b.t0}})
		if err != nil || unlocked[b.r.Key] {
			return false, err
		}
		if try == 2 || !conn.Pause(ctx, row.BusyPause) {
			return true, nil
		}
	}
}
