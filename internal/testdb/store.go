package testdb

import (
	"context"
	"testing"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/driver"
	mysqllock "github.com/rowlock/rowlock/mysql"
)

// Locks makes a database of the test's own with the lock tables.
func Locks(t testing.TB, kind string) (dsn string) {
	t.Helper()
	dsn = MySQL(t, kind).FormatDSN()
	if err := Open(t, dsn).Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return dsn
}

// Open opens a store with the usual options, which the end of the test closes.
func Open(t testing.TB, dsn string) *mysqllock.Store {
	t.Helper()
	store, err := mysqllock.Open(dsn, mysqllock.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	return store
}

// Client makes a client, as another program would have; ttl 0 is the default. The end of the test closes it.
func Client(t testing.TB, store driver.Store, ttl time.Duration) *rowlock.Client {
	t.Helper()
	c, err := rowlock.New(store, rowlock.Options{TTL: ttl, ReapInterval: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = c.Close(ctx)
	})
	return c
}
