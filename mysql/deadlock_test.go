package mysqllock

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rowlock/rowlock/driver"
)

// TestP8_DeadlockWithAStranger: a batch and a stranger's transaction lock two rows in
// opposite orders. The server ends the batch, which has done less; its caller never
// hears of it.
func TestP8_DeadlockWithAStranger(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, l *lab) {
		c := client{t: t, Store: l.store()}
		c.db.Usual.Store(int64(time.Second)) // the acquire may wait for as long as one ever does
		exec(t, l.db, "CREATE TABLE work (n INT) ENGINE=InnoDB")
		for round := range 5 {
			a, b := fmt.Sprint("a", round), fmt.Sprint("b", round)
			for _, key := range []string{a, b} {
				h := c.granted(key, time.Minute)
				h.Guarded = true // its row stays, under both strategies
				c.release(h)
			}
			tx, err := l.db.Begin()
			must(t, err)
			defer func() { _ = tx.Rollback() }()
			_, err = tx.Exec("INSERT INTO work VALUES (1)" + strings.Repeat(",(1)", 500))
			must(t, err)
			touch := func(key string) error {
				_, err := tx.Exec(fmt.Sprintf("UPDATE %s SET owner='stranger' WHERE name='%s'", l.table(), key))
				return err
			}
			must(t, touch(b))
			answers := make(chan []driver.Result)
			go func() {
				results, err := c.Acquire(patient(t), []driver.Request{request(a, time.Minute), request(b, time.Minute)})
				if err != nil {
					results = []driver.Result{{Err: err}}
				}
				answers <- results
			}()
			time.Sleep(60 * time.Millisecond) // it has the one row, and waits for the other
			if err := touch(a); err != nil {
				t.Errorf("the stranger was ended, not the batch: %v", err)
			}
			must(t, tx.Rollback())
			for _, r := range <-answers {
				if r.Status == driver.Unknown {
					t.Errorf("P8: the caller hears of the deadlock: %v", r.Err)
				}
			}
		}
	})
}
