package fault

import (
	"context"
	"errors"
	"flag"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rowlock/rowlock/dev/verify/timed"
)

// saw repeats the fault until a look at the server during it has shown its effect.
func (l *lab) saw(t *testing.T, f Fault, look func(ctx context.Context) bool) {
	t.Helper()
	for range 10 {
		ctx, stop := context.WithCancel(t.Context())
		seen := make(chan bool, 1)
		go func() {
			for ctx.Err() == nil {
				if look(ctx) {
					seen <- true
					return
				}
				timed.Rest(ctx, time.Millisecond)
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

// TestTogether: several faults at once, and with the end of the round in the middle;
// each heals.
func TestTogether(t *testing.T) {
	each(t, "half-open", func(t *testing.T, l *lab, _ Fault) {
		list := For(l.Kind)
		ctx, stop := context.WithTimeout(t.Context(), 6*time.Second)
		defer stop()
		var all sync.WaitGroup
		for i := range uint64(3) {
			all.Go(func() {
				for r := seeded(i); ctx.Err() == nil; {
					f := list[r.IntN(len(list))]
					begin := time.Now()
					what, err := f.Inject(ctx, l.Env)
					t.Logf("%s, %v: %s", f.Name, time.Since(begin).Round(time.Millisecond), what)
					if errors.Is(err, ErrNotWhole) || err != nil && ctx.Err() == nil {
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
	})
}

// TestReadme: README.md has the table.
func TestReadme(t *testing.T) {
	const file, mark = "README.md", "<!-- the table of Markdown; go test -run TestReadme -update -->\n"
	text, err := os.ReadFile(file)
	must(t, err)
	head, _, found := strings.Cut(string(text), mark)
	want := head + mark + "\n" + Markdown()
	if *update && found {
		must(t, os.WriteFile(file, []byte(want), 0o644))
	} else if string(text) != want {
		t.Errorf("%s is not up to date: go test -run TestReadme -update", file)
	}
}

var update = flag.Bool("update", false, "write the table into README.md")

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
