package mysqllock

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/internal/testserver"
)

// TestP12_RefusedRelease: without the privilege to delete no key of UniqueInsert can be
// released. Close says so at once: repeating would not help.
func TestP12_RefusedRelease(t *testing.T) {
	for _, kind := range testserver.Some(t, testserver.MySQL, testserver.MariaDB) {
		t.Run(kind, func(t *testing.T) {
			l := newLab(t, kind, UniqueInsert)
			l.store() // migrates
			user := "s" + strings.ToLower(rand.Text()[:12])
			exec(t, l.db, "CREATE USER "+user+"@'%' IDENTIFIED BY 'pw'")
			t.Cleanup(func() { _, _ = l.db.Exec("DROP USER " + user + "@'%'") })
			exec(t, l.db, "GRANT SELECT, INSERT, UPDATE ON "+l.config.DBName+".* TO "+user+"@'%'")
			config := l.config.Clone()
			config.User, config.Passwd = user, "pw"
			closesWithRefusal(t, openWith(t, config.FormatDSN(), l.options()), "DELETE")
		})
	}
}

// TestP12_StoreClosedFirst: the same where the Store was closed before the Client.
func TestP12_StoreClosedFirst(t *testing.T) {
	each(t, func(t *testing.T, l *lab) {
		l.store() // migrates
		s := openWith(t, l.dsn(), l.options())
		closesWithRefusal(t, s, "closed", func() { must(t, s.Close()) })
	})
}

// closesWithRefusal closes a client whose releases are refused, for the cause that the
// error must name.
func closesWithRefusal(t *testing.T, s *Store, cause string, before ...func()) {
	t.Helper()
	c, err := rowlock.New(s, rowlock.Options{TTL: 5 * time.Minute, ReapInterval: -1})
	must(t, err)
	ctx := patient(t)
	released, err := c.TryAcquire(ctx, "released")
	must(t, err)
	_, err = c.TryAcquire(ctx, "held")
	must(t, err)
	for _, f := range before {
		f()
	}
	if err := released.Release(ctx); err != nil {
		t.Errorf("Release = %v", err)
	}
	err = c.Close(ctx)
	if err == nil || errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("P12: Close = %v, want the refusal, before ctx ends", err)
	}
	for _, want := range []string{`"released"`, `"held"`, cause} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("P12: Close = %v, want %s in it", err, want)
		}
	}
}
