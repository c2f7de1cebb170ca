package rowlockcli

import (
	"fmt"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/words"
	mysqllock "github.com/rowlock/rowlock/mysql"
)

// hintStrategy asks, where a key is free (an empty one: where there are none), whether another strategy is meant: one whose
// table has the key, or has some while this one's has none. With another strategy than the programs' every key is free.
// It is a help only, so errors are not told.
func (q *query) hintStrategy(here driver.Info) {
	if q.config.Open != nil {
		return
	}
	s, err := q.settings()
	if err != nil || s.address.kind != "mysql" {
		return
	}
	own, err := q.count(q.Store)
	if err != nil {
		return
	}
	for _, other := range []mysqllock.Strategy{mysqllock.VersionColumn, mysqllock.UniqueInsert, mysqllock.SelectForUpdate} {
		if other == s.strategy {
			continue
		}
		o, err := q.openMySQL(s, other, false)
		if err != nil {
			continue
		}
		n, err := q.count(o.Store)
		if err == nil && n > 0 && (own == 0 || q.used(o.Store, here)) {
			number := words.Count(n, "key", "keys")
			if n == page {
				number = fmt.Sprintf("%d keys or more", n)
			}
			q.say("%s_%s has %s: --strategy %s?", s.prefix, keyTable[other], number, other)
		}
		o.close()
	}
}

// keyTable ends the name of the table with a strategy's keys.
var keyTable = map[mysqllock.Strategy]string{
	mysqllock.VersionColumn: "version", mysqllock.UniqueInsert: "unique", mysqllock.SelectForUpdate: "session",
}

// count is how many keys a store has, up to a page.
func (q *query) count(store driver.Store) (int, error) {
	lister, ok := store.(driver.Lister)
	if !ok {
		return 0, driver.ErrNotSupported
	}
	ctx, cancel := q.within()
	defer cancel()
	infos, err := lister.List(ctx, "", "", page)
	return len(infos), err
}

// used reports whether a key that is free here is taken in another store, or was used there and never here.
func (q *query) used(store driver.Store, here driver.Info) bool {
	if here.Key == "" {
		return false
	}
	ctx, cancel := q.within()
	defer cancel()
	infos, err := store.Inspect(ctx, []string{here.Key})
	return err == nil && (stateOf(infos[0]) != "free" || infos[0].Token != 0 && here.Token == 0)
}
