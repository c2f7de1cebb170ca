package fault

import (
	"context"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// saw repeats the fault until a look at the server during it has shown its effect.
func (l *lab) saw(t *testing.T, f Fault, look func(ctx context.Context) bool) {
	t.Helper()
	for range 6 {
		ctx, stop := context.WithCancel(t.Context())
		seen := make(chan bool, 1)
		go func() {
			for ctx.Err() == nil {
				if look(ctx) {
					seen <- true
					return
				}
				pause(ctx, time.Millisecond)
			}
			seen <- false
		}()
		what, err := f.Inject(t.Context(), l.Env)
		t.Log(what)
		must(t, err)
		stop()
		if <-seen {
			return
		}
	}
	t.Errorf("%s shows nothing", f.Name)
}

// length is the last time in a text.
func length(t *testing.T, what string) time.Duration {
	t.Helper()
	all := regexp.MustCompile(`(\d+\.)?\d+(ms|s)\b`).FindAllString(what, -1)
	if len(all) == 0 {
		t.Fatalf("no time in %q", what)
	}
	d, err := time.ParseDuration(all[len(all)-1])
	must(t, err)
	return d
}

func failed(_ string, ops []op) bool {
	return slices.ContainsFunc(ops, func(o op) bool { return o.err != nil })
}

// hung: some took nearly as long as the fault lasted, or until they were given up.
func (l *lab) hung(t *testing.T) func(what string, ops []op) bool {
	return func(what string, ops []op) bool {
		long := min(length(t, what)*7/10, l.TTL)
		return slices.ContainsFunc(ops, func(o op) bool { return o.took() >= long })
	}
}

// TestTable: what is said of each fault is there, and fits into a table.
func TestTable(t *testing.T) {
	names := map[string]bool{}
	for _, f := range All() {
		if f.Name == "" || names[f.Name] || f.What == "" || f.Expect == "" || f.Weight < 1 || len(f.Kinds) == 0 || f.Inject == nil ||
			strings.ContainsAny(f.What+f.Expect, "|\n") {
			t.Errorf("%+v", f)
		}
		names[f.Name] = true
		if !strings.Contains(Markdown(), "| `"+f.Name+"` | ") {
			t.Errorf("%s is not in the table", f.Name)
		}
	}
	for kind := range labs {
		for _, f := range For(kind) {
			if !slices.Contains(f.Kinds, kind) {
				t.Errorf("%s is not for %s", f.Name, kind)
			}
		}
	}
}
