package mysqllock

import (
	"fmt"
	"testing"
	"time"

	"github.com/rowlock/rowlock/driver"
)

// TestP7_InspectBetweenPhases: who has a key in a phase stands in another table than the key's row.
// What is told of a key whose phase ends between the two reads is what it was at one time.
func TestP7_InspectBetweenPhases(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, l *lab) {
		rec := new(recorder)
		c, other := client{t: t, Store: l.recorded(rec)}, client{t: t, Store: l.store()}
		list := func(key string) driver.Info {
			infos, err := c.List(patient(t), key, "", 1)
			must(t, err)
			return append(infos, driver.Info{Key: key})[0] // none: the row is gone
		}
		for reads, read := range map[string]func(string) driver.Info{"Inspect": c.inspect, "List": list} {
			for then, change := range map[string]func(key string){
				"held":     func(key string) { other.granted(key, time.Minute) },
				"released": func(key string) { other.release(other.granted(key, time.Minute)) },
				"another phase": func(key string) {
					other.release(other.granted(key, time.Minute))
					other.grant(slotOf(key, 2, time.Minute))
				},
				"gone": func(key string) { exec(t, l.db, fmt.Sprintf("DELETE FROM %s WHERE name='%s'", l.table(), key)) },
			} {
				key := reads + " " + then
				c.release(c.grant(reader(key, time.Minute)))
				rec.before("PARTITION BY", func() { change(key) })
				got := read(key)
				rec.watch(nil)
				want := read(key)
				if got.Left < want.Left || got.Left > time.Minute {
					t.Errorf("%s: %v left, and then %v", key, got.Left, want.Left)
				}
				if got.Left = want.Left; got != want {
					t.Errorf("%s: told\n%+v, and then\n%+v", key, got, want)
				}
			}
		}
	})
}
