package enginetest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/testserver"
)

// TestManyKeysShareOneProbe: N8, at most 20 statements a second for any number of keys and
// waiters. Probes and the attempts that are due by time alone have 18 of them.
func TestManyKeysShareOneProbe(t *testing.T) {
	const keys, atMost = 300, 18*60 + 5 // and what may come at once
	down := &driver.Error{NotApplied: true, Err: errors.New("too many connections")}
	for _, of := range []struct {
		name  string
		held  []rowlock.Option
		fault func(call) verdict
		ttls  int
		long  bool
	}{
		{name: "hints", fault: on("inspect", verdict{slow: time.Millisecond})}, // a round ends before the next begins
		{name: "hints of many TTLs", ttls: 30, long: true},
		{name: "gates", held: []rowlock.Option{rowlock.Shared()}, long: true},
		{name: "failures", fault: on("acquire", verdict{err: down}), long: true},
		{name: "failures of many TTLs", fault: on("acquire", verdict{err: down}), ttls: keys},
	} {
		t.Run(of.name, func(t *testing.T) {
			if of.long {
				testserver.Long(t)
			}
			synctest.Test(t, func(t *testing.T) {
				f := newFaultStore()
				c, other := newClient(t, f), newClient(t, f.Store, rowlock.Options{})
				ctx, cancel := context.WithCancel(context.Background())
				for i := range keys {
					key := fmt.Sprint("k", i)
					acquire(t, other, key, of.held...)
					ttl := 30*time.Second + time.Duration(i%max(of.ttls, 1))*time.Millisecond
					for range 3 {
						go c.Acquire(ctx, key, rowlock.TTL(ttl))
					}
				}
				synctest.Wait()
				f.set(of.fault)
				time.Sleep(5 * time.Second)
				before := len(f.all())
				time.Sleep(time.Minute)
				sent := f.all()[before:]
				if len(sent) > atMost {
					t.Errorf("N8: %d statements in a minute, want at most %d", len(sent), atMost)
				}
				for i, last := 0, (call{at: -1}); of.name == "hints" && i < len(sent); i++ {
					if sent[i].op != "acquire" {
						continue
					}
					if sent[i].at == last.at {
						t.Fatalf("N8: hints of %q and of %q are renewed at one moment by two statements", last.keys, sent[i].keys)
					}
					last = sent[i]
				}
				cancel()
				synctest.Wait()
				if s := c.Stats(); s.Waiting != 0 {
					t.Errorf("stats %+v", s)
				}
			})
		})
	}
}
