package enginetest

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/memory"
)

var modesRow = regexp.MustCompile("(?m)^\\| (exclusive|`Shared\\(\\)`|`Slots\\(n\\)`) \\| ([^|]+) \\| ([^|]+) \\| ([^|]+) \\|$")

// TestP16_TableOfModes: the table in docs/guides/read-locks-and-slots.md says which holds of a
// key may be beside each other. Every pair of modes is tried, from another client and from
// the same.
func TestP16_TableOfModes(t *testing.T) {
	const slots = 3
	modes := []struct {
		name    string
		options []rowlock.Option
	}{
		{"exclusive", nil}, {"`Shared()`", []rowlock.Option{rowlock.Shared()}}, {"`Slots(n)`", []rowlock.Option{rowlock.Slots(slots)}},
	}
	rows := tableOf(t, "read-locks-and-slots.md")
	if len(rows) != len(modes) {
		t.Fatalf("the table has %d rows, want %d", len(rows), len(modes))
	}
	for i, first := range modes {
		if rows[i][1] != first.name {
			t.Fatalf("row %d is of %s, want %s", i+1, rows[i][1], first.name)
		}
		for j, second := range modes {
			cell := strings.TrimSpace(rows[i][2+j])
			for _, who := range []string{"another client", "the same client"} {
				t.Run(fmt.Sprintf("%s beside %s of %s", second.name, first.name, who), func(t *testing.T) {
					store := memory.New()
					holder := clientOn(t, store)
					asker := holder
					if who == "another client" {
						asker = clientOn(t, store)
					}
					if _, err := holder.TryAcquire(t.Context(), "k", first.options...); err != nil {
						t.Fatal(err)
					}
					beside := 0 // how many more are granted
					for beside < 2*slots {
						_, err := asker.TryAcquire(t.Context(), "k", second.options...)
						if errors.Is(err, rowlock.ErrHeld) {
							break
						}
						if err != nil {
							t.Fatal(err)
						}
						beside++
						if second.name == "`Slots(n)`" && first.name != second.name && beside == slots {
							break // of their own kind there are no more
						}
					}
					want := map[string]bool{"no": beside == 0, "yes": beside >= slots, "up to n": beside == slots-1}
					ok, known := want[cell]
					if !known || !ok {
						t.Errorf("%d more were granted; the table says %q", beside, cell)
					}
				})
			}
		}
	}
}

// TestTableOfViews: docs/guides/reentrant.md says which modes a function may ask for under a lease.
func TestTableOfViews(t *testing.T) {
	rows := tableOf(t, "reentrant.md")
	options := [][]rowlock.Option{nil, {rowlock.Shared()}, {rowlock.Slots(3)}}
	if len(rows) != len(options) {
		t.Fatalf("the table has %d rows, want %d", len(rows), len(options))
	}
	for i, first := range options {
		locks := clientOn(t, memory.New())
		lease, err := locks.TryAcquire(t.Context(), "k", first...)
		if err != nil {
			t.Fatal(err)
		}
		for j, second := range options {
			_, err := locks.TryAcquire(lease.Context(t.Context()), "k", append(second, rowlock.Reentrant())...)
			want := map[string]error{"yes": nil, "no": rowlock.ErrSelfDeadlock}
			if says, known := want[rows[i][2+j]]; !known || !errors.Is(err, says) {
				t.Errorf("under %s, column %d: %v; the table says %q", rows[i][1], j+1, err, rows[i][2+j])
			}
		}
	}
}

// tableOf are the rows of a guide's table of modes.
func tableOf(t *testing.T, guide string) [][]string {
	t.Helper()
	page, err := os.ReadFile("../docs/guides/" + guide)
	if err != nil {
		t.Fatal(err)
	}
	return modesRow.FindAllStringSubmatch(string(page), -1)
}

func clientOn(t *testing.T, store *memory.Store) *rowlock.Client {
	t.Helper()
	c, err := rowlock.New(store, rowlock.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(t.Context()) })
	return c
}
