package mysqllock

import (
	"crypto/rand"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rowlock/rowlock/driver"
)

// TestListPinnedCost: which keys of a page are pinned costs a statement where some are free, a second where some are locked, and
// none where all are held.
func TestListPinnedCost(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, l *lab) {
		c := client{t: t, Store: l.store()}
		list := func(prefix string) (statements uint64, pinned int) {
			t.Helper()
			before := c.Statements()
			infos, err := c.List(patient(t), prefix, "", 100)
			must(t, err)
			statements = c.Statements() - before
			for _, i := range infos {
				if i.Pinned {
					pinned++
				}
			}
			return statements, pinned
		}
		for i := range 20 {
			c.grant(request(fmt.Sprint("held/", i), time.Minute))
			key := fmt.Sprint("free/", i)
			c.grant(request(key, time.Minute))
			exec(t, l.db, fmt.Sprintf("UPDATE %s SET expires_at='2020-01-01' WHERE name=x'%x'", l.table(), key))
		}
		held, _ := list("held/")
		if n, pinned := list("free/"); n != held+1 || pinned != 0 {
			t.Errorf("%d statements for a page of free keys, and %d pinned; want %d and 0", n, pinned, held+1)
		}
		for i := range 5 {
			l.guard(fmt.Sprint("free/", i))
		}
		if n, pinned := list("free/"); n != held+2 || pinned != 5 {
			t.Errorf("%d statements for a page with 5 pinned keys, and %d pinned; want %d and 5", n, pinned, held+2)
		}
	})
}

// TestListWithoutLocks: where no row can be locked, for want of a privilege or because the table is locked for writes, List tells
// all but what is pinned.
func TestListWithoutLocks(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, l *lab) {
		c := client{t: t, Store: l.store()}
		c.grant(request("held", time.Minute))
		c.grant(request("free", time.Minute))
		exec(t, l.db, fmt.Sprintf("UPDATE %s SET expires_at='2020-01-01' WHERE name='free'", l.table()))
		list := func(what string, s driver.Lister) {
			t.Helper()
			infos, err := s.List(patient(t), "", "", 10)
			if err != nil || len(infos) != 2 || infos[0].Key != "free" || infos[0].Held || !infos[1].Held {
				t.Errorf("%s: %+v, %v", what, infos, err)
			}
		}
		user := "r" + strings.ToLower(rand.Text()[:12])
		exec(t, l.db, "CREATE USER "+user+"@'%' IDENTIFIED BY 'pw'")
		t.Cleanup(func() { _, _ = l.db.Exec("DROP USER " + user + "@'%'") })
		exec(t, l.db, "GRANT SELECT ON "+l.config.DBName+".* TO "+user+"@'%'")
		config := l.config.Clone()
		config.User, config.Passwd = user, "pw"
		list("a user who may read only", openWith(t, config.FormatDSN(), l.options()))
		own, err := l.db.Conn(t.Context())
		must(t, err)
		defer own.Close()
		defer func() { _, _ = own.ExecContext(t.Context(), "UNLOCK TABLES") }()
		_, err = own.ExecContext(patient(t), "LOCK TABLES "+l.table()+" READ")
		must(t, err)
		list("a table that is locked for writes", c.Store)
	})
}
