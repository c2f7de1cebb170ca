package workload

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/dev/verify/history"
	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/fencing"
)

// backend is what a space needs of its server: locks, and for each hot key a ledger,
// which is written under a guard, and a register, which is fenced by tokens.
type backend interface {
	store() driver.Store

	// commit writes a row for each lease in a transaction that is guarded with all of them:
	// in InTx, or with Guard in one of the caller's. An exclusive lease's is the next of the
	// ledger of its key, a slot's that of the slot's; a reader's says which number it found in
	// the ledger. It calls sending with the numbers when the commit comes next.
	commit(ctx context.Context, leases []*rowlock.Lease, rows []row, own bool, sending func(numbers []int64)) error

	// once makes the effect r of a run that is marked by the name of mark, by Once, or with
	// MarkRun in a transaction of the caller's.
	once(ctx context.Context, lease *rowlock.Lease, mark string, r row, own bool) error

	// locked makes the next effect of key in a transaction of the caller's under LockTx.
	// It calls sending with its run when the commit comes next.
	locked(ctx context.Context, key string, r row, sending func(run string)) error

	// write writes to the register of key, read reads it.
	write(ctx context.Context, key string, token, value int64) error
	read(ctx context.Context, key string) (value, token int64, err error)

	// pulse makes a durable write of one row, on a new connection.
	pulse(ctx context.Context) error

	// unapplied reports whether err proves that what it answers took no effect.
	unapplied(err error) bool

	close() error
}

// row is what a ledger keeps beside key and number, and an effect beside key and run.
type row struct {
	Space, Client string
	Event, Token  int64
	Run           string
	Mode          history.Mode
	Slot          int
}

// ledger is the name of the ledger of a key that the row is for.
func (r row) ledger(key string) string {
	if r.Mode == history.Slot {
		return slotLedger(key, r.Slot)
	}
	return key
}

// slotLedger is the name of the ledger of a slot.
func slotLedger(key string, slot int) string { return fmt.Sprintf("%s#%d", key, slot) }

// errCommit is matched by an error of the commit itself: it took effect, or not.
var errCommit = errors.New("the answer to the commit")

// committed says what came of a guarded transaction.
func committed(err error) history.Result {
	switch {
	case err == nil:
		return history.OK
	case errors.Is(err, rowlock.ErrUnknownOutcome), errors.Is(err, errCommit):
		return history.Unknown
	case errors.Is(err, rowlock.ErrLost), errors.Is(err, rowlock.ErrReleased):
		return history.Lost
	case errors.Is(err, rowlock.ErrConflict):
		return history.Conflict
	}
	return history.Failed
}

// ran says what came of a run.
func ran(err error) history.Result {
	if errors.Is(err, rowlock.ErrAlreadyRan) {
		return history.Ran
	}
	return committed(err)
}

// written says what came of a write to a register.
func written(b backend, err error) history.Result {
	switch {
	case err == nil:
		return history.OK
	case errors.Is(err, fencing.ErrStale):
		return history.Stale
	case b.unapplied(err):
		return history.Failed
	}
	return history.Unknown
}

// open opens the backend of a space.
func open(space string, t Task) (backend, error) {
	switch space {
	case Version, Unique, ForUpdate:
		return openSQL(space, t.Address, cmp.Or(t.Pool, t.Address))
	case Mongo:
		return openMongo(t.Address, t.Through)
	}
	return nil, fmt.Errorf("no space %q", space)
}
