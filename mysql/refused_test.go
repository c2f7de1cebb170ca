package mysqllock

import (
	"bytes"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rowlock/rowlock/driver"
)

// TestRefusedThenFreed: in a batch two keys are refused, and their holders let go
// before the rows are read, each time; others have them by the next try. That is no
// riddle: somebody else has the keys.
func TestRefusedThenFreed(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, l *lab) {
		l.store()
		proxy := l.firewall()
		hot := []string{"hot 1", "hot 2"}
		var upserts atomic.Int64
		proxy.shows(nil, func(b []byte) {
			switch {
			case bytes.Contains(b, []byte("INSERT INTO `"+l.table()+"`")):
				n := upserts.Add(1)
				for i, key := range hot {
					exec(t, l.db, fmt.Sprintf("REPLACE INTO %s (name,hold,owner,token,acquired_at,expires_at) VALUES (x'%x',x'%032x','other',%d,UTC_TIMESTAMP(6),UTC_TIMESTAMP(6)+INTERVAL 1 MINUTE)", l.table(), key, n, i+1))
				}
			case bytes.Contains(b, []byte("SELECT name,hold,owner")):
				exec(t, l.db, fmt.Sprintf("DELETE FROM %s WHERE owner='other'", l.table()))
			}
		})
		s := l.bare()
		results, err := s.Acquire(patient(t), []driver.Request{request("cold", time.Minute), request(hot[0], time.Minute), request(hot[1], time.Minute)})
		must(t, err)
		if r := results[0]; r.Status != driver.Granted {
			t.Errorf("the other key of the batch: %v, %v", r.Status, r.Err)
		}
		for i, r := range results[1:] {
			if r.Status != driver.Held {
				t.Errorf("%q, which others have in turns: %v, %v, want held", hot[i], r.Status, r.Err)
			}
		}
		if upserts.Load() < 2 {
			t.Errorf("%d upserts: the key was not tried again", upserts.Load())
		}
	})
}
