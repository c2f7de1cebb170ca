package enginetest

import (
	"context"
	"runtime"
	"testing"
	"time"
	"weak"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/memory"
)

// TestContextsAreForgotten: a lease that is held for long sees many contexts, and keeps none whose parent has ended.
func TestContextsAreForgotten(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	c, err := rowlock.New(memory.New(), rowlock.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close(ctx) }()
	lease, err := c.Acquire(ctx, "lease")
	if err != nil {
		t.Fatal(err)
	}
	group, err := c.AcquireAll(ctx, rowlock.Keys("a", "b"))
	if err != nil {
		t.Fatal(err)
	}
	for name, of := range map[string]func(context.Context) context.Context{"lease": lease.Context, "group": group.Context} {
		type mark struct{ name string }
		ended := func() weak.Pointer[mark] {
			m := &mark{name}
			parent, end := context.WithCancel(context.WithValue(context.Background(), mark{}, m))
			child := of(parent)
			end()
			<-child.Done()
			return weak.Make(m)
		}()
		for ended.Value() != nil && ctx.Err() == nil {
			runtime.GC()
			runtime.Gosched()
		}
		if ended.Value() != nil {
			t.Errorf("the %s keeps a context whose parent has ended", name)
		}
	}
	if lease.Err() != nil || group.Err() != nil {
		t.Errorf("the lease: %v, the group: %v: they should have been held all the time", lease.Err(), group.Err())
	}
}
