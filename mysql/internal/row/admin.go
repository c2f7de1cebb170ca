package row

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/mysql/internal/conn"
)

// inTheWay tells the operator what stops a forced release and how to find it.
func inTheWay(err error) error {
	return fmt.Errorf("an open transaction, perhaps a guarded one of the holder, must end first: try again, or find it in information_schema.INNODB_TRX and KILL its trx_mysql_thread_id"+
		" (where that is 0, or the KILL changes nothing, it is a prepared XA branch: find it by XA RECOVER and end it by XA ROLLBACK or XA COMMIT, as its coordinator has decided): %w", err)
}

// Info is the row in words of package driver.
func (r Row) Info() driver.Info {
	i := driver.Info{Key: r.Key, Owner: r.Owner, Token: max(r.Token, 0), Since: time.UnixMicro(r.SinceMicros).UTC(), Wanted: r.Wanted}
	if r.Left > 0 {
		i.Held, i.Kept, i.Left, i.Hold = true, !r.Live, r.Left, r.ID
	}
	if l := r.Line(); len(l) > 0 {
		i.Waiting, i.WaitingSince = len(l), time.UnixMicro(l[0].Since).UTC()
	}
	return i
}

// Known is what a Store reads of a key at once.
type Known interface {
	Info() driver.Info
	KeyRow() Row
}

// KeyRow implements Known, also for what has a Row in it.
func (r Row) KeyRow() Row { return r }

// MarkPinned asks which of the keys that nobody has are pinned. What the server does not answer, because the user may not lock
// rows or a lock on the table stands in the way, stays open.
func MarkPinned[K Known](ctx context.Context, c *conn.Conn, infos []driver.Info, found map[string]K, ask func(context.Context, *conn.Conn, []Row) ([]string, error)) error {
	var free []Row
	at := make(map[string]*driver.Info)
	for i := range infos {
		if r := found[infos[i].Key].KeyRow(); !infos[i].Held && r.Corrupt == "" {
			free, at[r.Key] = append(free, r), &infos[i]
		}
	}
	if len(free) == 0 {
		return nil
	}
	pinned, err := ask(ctx, c, free)
	if conn.Number(err) > 0 {
		return nil
	}
	for _, key := range pinned {
		at[key].Pinned = true
	}
	return err
}

// BusyPatience is how long ForceRelease tries for a key whose row others are writing.
const BusyPatience = 5 * time.Second

// Insist is a forced release, tried until nothing is in the way, for as long as that
// may last. try reports whether a guard is, and how long its statement may stay unanswered
// is given: the row of a busy key has a queue, and from the second time on it stands in
// it for longer. The operator waits for that, and nobody waits behind a place in a queue.
func Insist(ctx context.Context, d *conn.DB, try func(bound time.Duration) (guarded bool, err error)) error {
	bound, start := d.Bound(0), time.Now()
	for since := start; ; bound = d.Bound(len(conn.Bounds) - 1) {
		guarded, err := try(bound)
		if !errors.Is(err, conn.ErrBlocked) {
			return err
		}
		if !guarded { // or the row changed between two questions, which looks like a guard
			since = time.Now()
		}
		if time.Since(start) > BusyPatience || time.Since(since) > conn.LockWait || !conn.Pause(ctx, 50*time.Millisecond) {
			return inTheWay(err)
		}
	}
}

// ErrChanged is that of a forced release which finds another hold than it is to end.
var ErrChanged error = &driver.Error{Lasting: true, NotApplied: true, Err: driver.ErrChanged}

// Is reports whether the row has the hold that was seen, or the phase, which its token names;
// nil: any will do.
func (r Row) Is(seen *driver.Info) bool {
	if seen == nil {
		return true
	}
	id := r.ID
	if r.InPhase {
		id = driver.HoldID{} // Info does not show it
	}
	return id == seen.Hold && max(r.Token, 0) == seen.Token
}

// Guarded reports whether a guard is open on the row: it locks the entry in the
// guard index, but not the row. Where the row is locked too, somebody is writing it.
func (l *Table) Guarded(ctx context.Context, c *conn.Conn, r Row) (bool, error) {
	keys, err := l.GuardedOf(ctx, c, []Row{r})
	return len(keys) > 0, err
}

// LockedOf are the keys of the rows whose entries in the guard index somebody has locked.
func (l *Table) LockedOf(ctx context.Context, c *conn.Conn, rows []Row) (keys []string, err error) {
	unlocked, err := l.Unlocked(ctx, c, rows)
	if err != nil {
		return nil, err
	}
	for _, r := range rows {
		if !unlocked[r.Key] {
			keys = append(keys, r.Key)
		}
	}
	return keys, nil
}

// GuardedOf are the keys of the rows on which a guard is open: one statement for all, and one more where there are locks.
func (l *Table) GuardedOf(ctx context.Context, c *conn.Conn, rows []Row) ([]string, error) {
	keys, err := l.LockedOf(ctx, c, rows)
	if err != nil || len(keys) == 0 {
		return nil, err
	}
	writable, err := l.Writable(ctx, c, len(keys), func(i int) string { return keys[i] })
	return slices.DeleteFunc(keys, func(key string) bool { return !writable[key] }), err
}

// Existing is infos without the keys that have no row any more.
func Existing[K Known](infos []driver.Info, found map[string]K) []driver.Info {
	return slices.DeleteFunc(infos, func(i driver.Info) bool { _, ok := found[i.Key]; return !ok })
}
