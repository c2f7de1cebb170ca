package mysqllock

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/internal/testserver"
)

// TestP24_LeadAfterARefusal: two programs, one of which leads, and a server that refuses their user for a while: a password that is
// rotated, an account that is locked, privileges or a table that are gone. When all is as before one of them leads again.
func TestP24_LeadAfterARefusal(t *testing.T) {
	t.Parallel()
	refusals := []struct{ name, begin, end string }{
		{"password", "ALTER USER ROLE@'%' IDENTIFIED BY 'other'", "ALTER USER ROLE@'%' IDENTIFIED BY 'pw'"},
		{"account", "ALTER USER ROLE@'%' ACCOUNT LOCK", "ALTER USER ROLE@'%' ACCOUNT UNLOCK"},
		{"privileges", "REVOKE ALL ON DB.* FROM ROLE@'%'", "GRANT ALL ON DB.* TO ROLE@'%'"},
		{"table", "RENAME TABLE TABLE_ TO DB.away", "RENAME TABLE DB.away TO TABLE_"},
	}
	everywhere(t, func(t *testing.T, l *lab) {
		some := refusals
		if l.strategy == SelectForUpdate { // RENAME would wait for the session that holds
			some = refusals[:3]
		}
		for _, r := range testserver.Some(t, some...) {
			t.Run(r.name, func(t *testing.T) {
				l := newLab(t, l.kind, l.strategy)
				_, user := asUser(t, l, Options{})
				names := strings.NewReplacer("ROLE", user, "TABLE_", l.config.DBName+"."+l.table(), "DB", l.config.DBName)
				config := l.config.Clone()
				config.User, config.Passwd = user, "pw"
				ctx, cancel := context.WithCancel(context.Background())
				var leads atomic.Int32
				var programs []*rowlock.Client
				var mu sync.Mutex
				var logs [2]bytes.Buffer
				var all sync.WaitGroup
				defer all.Wait()
				defer cancel()
				for i := range logs {
					p := l.programOn(t, openWith(t, config.FormatDSN(), l.options()), rowlock.Options{
						TTL: 2 * time.Second, Logger: slog.New(slog.NewTextHandler(lockedWriter{&mu, &logs[i]}, nil)),
					})
					programs = append(programs, p.Client)
					all.Go(func() {
						err := rowlock.Lead(ctx, p.Client, "k", func(ctx context.Context, _ *rowlock.Lease) error {
							leads.Add(1)
							defer leads.Add(-1)
							<-ctx.Done()
							return ctx.Err()
						})
						if ctx.Err() == nil {
							t.Errorf("P24: Lead ended by itself: %v", err)
						}
					})
				}
				said := func(i int) bool {
					mu.Lock()
					defer mu.Unlock()
					return strings.Contains(logs[i].String(), "level=ERROR msg=\"the database refuses what a loop needs; mend that: the loop waits, and goes on\"") && strings.Contains(logs[i].String(), "loop=lead key=k")
				}
				eventually(t, "one leads", func() bool { return leads.Load() == 1 })
				eventually(t, "the other was refused the key", func() bool {
					for _, c := range programs {
						if waits := c.Waits(); len(waits) == 1 && errors.Is(waits[0].Err, rowlock.ErrHeld) {
							return true
						}
					}
					return false
				})

				exec(t, l.db, names.Replace(r.begin))
				endSessions(t, l, user)
				eventually(t, "nobody leads, and both have said why", func() bool {
					if t.Failed() {
						t.FailNow()
					}
					return leads.Load() == 0 && said(0) && said(1)
				})
				exec(t, l.db, names.Replace(r.end))
				eventually(t, "one leads again", func() bool { return leads.Load() == 1 })
			})
		}
	})
}

// endSessions ends those of a user.
func endSessions(t *testing.T, l *lab, user string) {
	t.Helper()
	rows, err := l.db.Query("SELECT id FROM information_schema.processlist WHERE user=?", user)
	must(t, err)
	defer rows.Close()
	for rows.Next() {
		var id int64
		must(t, rows.Scan(&id))
		_, _ = l.db.Exec(fmt.Sprintf("KILL %d", id)) // it may have ended by itself
	}
	must(t, rows.Err())
}
