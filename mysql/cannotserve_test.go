package mysqllock

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/rowlock/rowlock"
)

// TestServersThatCannotServe: each error by which a server says that it cannot serve at the moment, or is no primary any more. Nothing
// took effect. A statement of the Store's goes again on a new connection; that of a function under InTx or Once is the caller's to run
// again, on a new connection too.
func TestServersThatCannotServe(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, l *lab) {
		l.store()
		for _, number := range []uint16{1290, 1792, 1836, 1047, 3100, 3101} {
			t.Run(fmt.Sprint(number), func(t *testing.T) {
				l := *l
				l.t = t
				w := l.firewall()
				s := l.bare()
				p := l.programOn(t, s, rowlock.Options{})
				lease := p.lock(t, "k")
				missing := []byte("\xff\x7a\x04#42S02") // what the protocol writes of a table that is missing: 0xff, 1146, its state
				said := append(binary.LittleEndian.AppendUint16([]byte{0xff}, number), "#HY000"...)
				answer := func(b []byte) []byte { return bytes.ReplaceAll(b, missing, said) }

				w.shows(answer, nil)
				connection := func(tx *sql.Tx) (id int64, err error) {
					err = tx.QueryRow("SELECT CONNECTION_ID()").Scan(&id)
					return id, err
				}
				for what, work := range map[string]func(fn func(context.Context, *sql.Tx) error) error{
					"InTx": func(fn func(context.Context, *sql.Tx) error) error { return p.InTx(patient(t), lease, fn) },
					"Once": func(fn func(context.Context, *sql.Tx) error) error {
						return p.Once(patient(t), lease, fmt.Sprint("run", number), fn)
					},
				} {
					var before, after int64
					err := work(func(ctx context.Context, tx *sql.Tx) (err error) {
						if before, err = connection(tx); err == nil {
							_, err = tx.ExecContext(ctx, "DELETE FROM no_such_table")
						}
						return err
					})
					var raw *mysql.MySQLError
					if !errors.Is(err, rowlock.ErrConflict) || !errors.As(err, &raw) || raw.Number != number {
						t.Errorf("%s: %v, want ErrConflict, with %d", what, err, number)
					}
					must(t, work(func(_ context.Context, tx *sql.Tx) (err error) { after, err = connection(tx); return err }))
					if before == after {
						t.Errorf("%s: the connection that answered %d was used again", what, number)
					}
				}
				must(t, lease.Release(patient(t)))

				exec(t, l.db, "RENAME TABLE "+l.table()+" TO away")
				met := make(chan struct{}, 100)
				w.shows(func(b []byte) []byte {
					if bytes.Contains(b, missing) {
						select {
						case met <- struct{}{}:
						default:
						}
					}
					return answer(b)
				}, nil)
				granted := make(chan error, 1)
				go func() {
					lease, err := p.Client.Acquire(patient(t), "k")
					if err == nil {
						err = lease.Release(patient(t))
					}
					granted <- err
				}()
				<-met
				exec(t, l.db, "RENAME TABLE away TO "+l.table())
				if err := <-granted; err != nil {
					t.Errorf("Acquire while a server answered %d: %v", number, err)
				}
			})
		}
	})
}
