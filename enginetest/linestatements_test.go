package enginetest

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rowlock/rowlock"
)

// TestN8_WaitersInALine: a program that stands in the line of a key that another has for long sends at most 20 statements
// a second, at every place, with Fair, and for the next run of Every.
func TestN8_WaitersInALine(t *testing.T) {
	const programs, seconds = 3, 20
	fn := func(context.Context, *rowlock.Lease) error { return nil }
	for name, wait := range map[string]func(ctx context.Context, c *rowlock.Client, key string){
		"a key that is held": func(ctx context.Context, c *rowlock.Client, key string) { c.Acquire(ctx, key) },
		"fair":               func(ctx context.Context, c *rowlock.Client, key string) { c.Acquire(ctx, key, rowlock.Fair()) },
		"every": func(ctx context.Context, c *rowlock.Client, key string) {
			rowlock.Every(ctx, c, key, 10*time.Minute, fn)
		},
		"every, fair": func(ctx context.Context, c *rowlock.Client, key string) {
			rowlock.Every(ctx, c, key, 10*time.Minute, fn, rowlock.Fair())
		},
	} {
		for _, keys := range []int{1, 5} {
			t.Run(fmt.Sprintf("%s, %d keys", name, keys), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					f := newFaultStore()
					holder := newClient(t, f)
					ctx, cancel := context.WithCancel(context.Background())
					var wg sync.WaitGroup
					var stores []*faultStore
					for p := range programs {
						own := newFaultStore()
						own.Store = f.Store
						stores = append(stores, own)
						c := newClient(t, own)
						for i := range keys {
							key := fmt.Sprint("k", i)
							if p == 0 && (name == "a key that is held" || name == "fair") {
								acquire(t, holder, key)
							}
							wg.Go(func() { wait(ctx, c, key) })
						}
						time.Sleep(time.Second)
					}
					time.Sleep(8 * time.Second)
					var before []int
					for _, own := range stores {
						before = append(before, len(own.all()))
					}
					time.Sleep(seconds * time.Second)
					for p, own := range stores {
						sent := len(own.all()) - before[p]
						if sent > 20*seconds {
							t.Errorf("N8: program %d in the line sent %d statements in %d s", p, sent, seconds)
						}
					}
					cancel()
					wg.Wait()
				})
			})
		}
	}
}
