package main

import (
	"slices"
	"testing"
	"time"

	"github.com/rowlock/rowlock/examples/internal/servers"
)

// TestWrongBooks: the verdict on a sale sees every way to sell wrongly.
func TestWrongBooks(t *testing.T) {
	for name, c := range map[string]struct {
		books books
		wrong bool
	}{
		"each once":     {books{Orders: 10, Items: 10, Stock: 0}, false},
		"too many":      {books{Orders: 11, Items: 10, Stock: 0}, true},
		"too few":       {books{Orders: 9, Items: 9, Stock: 1}, true},
		"one twice":     {books{Orders: 10, Items: 9, Stock: 0}, true},
		"nothing":       {books{Orders: 0, Items: 0, Stock: 10}, true},
		"a stale stock": {books{Orders: 10, Items: 10, Stock: 3}, true},
	} {
		if got := c.books.wrong(10); (got != "") != c.wrong {
			t.Errorf("%s: %q", name, got)
		}
	}
}

func TestQuantile(t *testing.T) {
	var list []time.Duration
	if q := quantile(list, 0.5); q != 0 {
		t.Errorf("of nothing: %d", q)
	}
	for i := range 100 {
		list = append(list, time.Duration(i+1))
	}
	for share, want := range map[float64]time.Duration{0: 1, 0.5: 50, 0.99: 99, 1: 100} {
		if q := quantile(list, share); q != want {
			t.Errorf("%v of 1…100 is %d, want %d", share, q, want)
		}
	}
}

func TestFlags(t *testing.T) {
	for _, v := range []string{"ROWLOCK_TEST_MYSQL_DSN", "ROWLOCK_TEST_MARIADB_DSN", "ROWLOCK_TEST_MONGO_URI"} {
		t.Setenv(v, "set")
	}
	for _, args := range [][]string{
		{"-strategies", "optimistic"}, {"-items", "0"}, {"-buyers", "5", "-items", "6"}, {"-processes", "0"}, {"-short", "more"},
	} {
		if _, err := parse(args); err == nil {
			t.Errorf("%q is no error", args)
		}
	}
	d, err := parse([]string{"-short", "-buyers", "77", "-mariadb", "-strategies", "version,none"})
	if err != nil {
		t.Fatal(err)
	}
	if d.Buyers != 77 || d.Items != 50 {
		t.Errorf("-short with -buyers 77: %d buyers, %d items", d.Buyers, d.Items)
	}
	if want := []string{unlocked, version}; !slices.Equal(d.Strategies, want) {
		t.Errorf("strategies %q, want %q: the sale without a lock comes first", d.Strategies, want)
	}
	if want := []servers.Server{servers.MySQL, servers.MariaDB}; !slices.Equal(d.servers(), want) {
		t.Errorf("servers %v, want %v", d.servers(), want)
	}
}
