package row

import (
	"context"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/mysql/internal/conn"
)

// Rows are the rows of one kind of holds. Those of exclusive holds are a Table's.
type Rows interface {
	// RowName names the row of a hold in what the others answer.
	RowName(h *driver.Hold) string

	// ReadHolds reads the rows of some of the batch's holds. A plain read.
	ReadHolds(ctx context.Context, c *conn.Conn, b *Batch, some []int) (map[string]Row, error)

	// WritableHolds tells which of their rows no transaction has locked.
	WritableHolds(ctx context.Context, c *conn.Conn, b *Batch, some []int) (map[string]bool, error)

	// CorruptError is the error for a hold whose row is corrupt.
	CorruptError(step, key, why string, notApplied bool) error
}

// RowName is the key: it has one row.
func (l *Table) RowName(h *driver.Hold) string { return h.Key }

// ReadHolds reads the rows of the keys.
func (l *Table) ReadHolds(ctx context.Context, c *conn.Conn, b *Batch, some []int) (map[string]Row, error) {
	return l.Rows(ctx, c, len(some), func(i int) string { return b.Holds[some[i]].Key })
}

// WritableHolds tells which of the keys' rows no transaction has locked.
func (l *Table) WritableHolds(ctx context.Context, c *conn.Conn, b *Batch, some []int) (map[string]bool, error) {
	return l.Writable(ctx, c, len(some), func(i int) string { return b.Holds[some[i]].Key })
}
