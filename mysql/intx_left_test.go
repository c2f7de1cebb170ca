package mysqllock

import (
	"context"
	"database/sql"
	"testing"

	"github.com/rowlock/rowlock"
)

// TestInTxOnWhatAFunctionLeft: a function may leave anything on its connection; the next transaction there is as the first
// was.
func TestInTxOnWhatAFunctionLeft(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, l *lab) {
		l.notes(t)
		ctx := patient(t)
		p := l.program(t, rowlock.Options{})
		other := l.otherSchema(t)
		for _, left := range append(leftInASession(l, other), sessionState{name: "nothing"}) {
			if left.never { // it ends the transaction
				continue
			}
			t.Run(left.name, func(t *testing.T) {
				lease := p.lock(t, left.name)
				t.Cleanup(func() { _ = lease.Release(ctx) })
				var ids [3]int
				for i := range ids {
					must(t, p.InTx(ctx, lease, func(ctx context.Context, tx *sql.Tx) error {
						must(t, tx.QueryRowContext(ctx, "SELECT CONNECTION_ID()").Scan(&ids[i]))
						must(t, note(ctx, tx, left.name))
						if i == 1 {
							for _, s := range left.statements {
								if _, err := tx.ExecContext(ctx, s); err != nil {
									return err
								}
							}
						}
						return nil
					}))
				}
				if n := l.noted(t, left.name); n != 3 {
					t.Errorf("%d of 3 effects", n)
				}
				if ids[0] != ids[1] {
					t.Error("a connection that was left as it was is not used again")
				}
				if again := ids[1] == ids[2]; again == left.seenInTx {
					t.Errorf("the connection was used again: %v", again)
				}
			})
		}
	})
}
