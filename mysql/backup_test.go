package mysqllock

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rowlock/rowlock/doctor"
	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/testserver"
)

// backup is a session that locks a server as a backup does.
type backup struct {
	t    *testing.T
	conn *sql.Conn
	end  string
}

// lock sends the statements, and end ends them.
func (l *lab) backup(t *testing.T, statements ...string) *backup {
	t.Helper()
	c, err := l.open(l.config).Conn(t.Context())
	must(t, err)
	b := &backup{t: t, conn: c, end: "UNLOCK TABLES"}
	for _, text := range statements {
		switch {
		case strings.HasPrefix(text, "LOCK INSTANCE"):
			b.end = "UNLOCK INSTANCE"
		case strings.HasPrefix(text, "BACKUP STAGE"):
			b.end = "BACKUP STAGE END"
		}
		_, err := c.ExecContext(patient(t), text)
		must(t, err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return b
}

func (b *backup) over() {
	b.t.Helper()
	_, err := b.conn.ExecContext(patient(b.t), b.end)
	must(b.t, err)
}

// stages are the states of a server in which a backup keeps writes waiting, by the kind of server.
var stages = map[string][][]string{
	testserver.MySQL:   {{"FLUSH TABLES WITH READ LOCK"}},
	testserver.MariaDB: {{"FLUSH TABLES WITH READ LOCK"}, {"BACKUP STAGE START", "BACKUP STAGE BLOCK_COMMIT"}},
}

// TestP8_Backup: while a backup keeps all commits waiting, a key that nobody has is neither held nor pinned: a job with NoWait would
// be skipped in silence. Whether the key has a row makes no difference.
func TestP8_Backup(t *testing.T) {
	testserver.Long(t)
	t.Parallel()
	for _, kind := range testserver.Some(t, testserver.MySQL, testserver.MariaDB) {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			server := testserver.Start(t, kind)
			for _, stage := range stages[kind] {
				var clients []client
				for _, strategy := range []Strategy{VersionColumn, UniqueInsert, SelectForUpdate} {
					c := client{t: t, Store: newLabAt(t, kind, server.DSN(), strategy).store()}
					c.release(c.granted("had", time.Minute))
					c.release(c.grant(reader("had by readers", time.Minute)))
					clients = append(clients, c)
				}
				reqs := []driver.Request{request("new", time.Minute), request("had", time.Minute), request("looked for first", time.Minute), request("had by readers", time.Minute),
					reader("had by readers", time.Minute), slotOf("slots", 2, time.Minute)}
				reqs[2].Pinned = true
				b := newLabAt(t, kind, server.DSN(), VersionColumn).backup(t, stage...)
				var wg sync.WaitGroup
				for _, c := range clients {
					for _, q := range reqs {
						wg.Go(func() {
							q.ID = newID()
							results, err := c.Acquire(patient(t), []driver.Request{q})
							if err != nil {
								results = []driver.Result{{Err: err}}
							}
							if r := results[0]; r.Status != driver.Unknown || r.Err == nil || !strings.Contains(r.Err.Error(), "a backup") {
								t.Errorf("P8: %v: strategy %v: %q (%v), which nobody has: %v %v", stage, c.options.Strategy, q.Key, q.Mode, r.Status, r.Err)
							}
						})
					}
				}
				wg.Wait()
				b.over()
				for _, c := range clients {
					for _, q := range reqs {
						q.ID = newID()
						var r driver.Result
						eventually(t, "the key is free", func() bool {
							r = c.acquire(q)[0]
							return r.Status == driver.Granted
						})
						c.release(driver.Hold{Key: q.Key, ID: q.ID, Token: r.Token, Stored: r.Stored, TTL: q.TTL, Mode: q.Mode, Slot: r.Slot, Phase: r.Phase})
					}
				}
			}
		})
	}
}

// TestMigrateDuringBackup: a backup that has the definitions of all tables locked keeps no program from starting whose tables are
// there. Where one is missing the error names the backup, and after it the table is made.
func TestMigrateDuringBackup(t *testing.T) {
	testserver.Long(t)
	t.Parallel()
	for kind, stages := range map[string][][]string{
		testserver.MySQL:   {{"LOCK INSTANCE FOR BACKUP"}, {"FLUSH TABLES WITH READ LOCK"}},
		testserver.MariaDB: {{"BACKUP STAGE START", "BACKUP STAGE BLOCK_DDL"}, {"BACKUP STAGE START", "BACKUP STAGE BLOCK_COMMIT"}, {"FLUSH TABLES WITH READ LOCK"}},
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			server := testserver.Start(t, kind)
			for _, stage := range stages {
				l := newLabAt(t, kind, server.DSN(), VersionColumn)
				l.store()
				b := l.backup(t, stage...)
				if err := l.bare().Migrate(patient(t)); err != nil {
					t.Errorf("%v: all tables are there: %v", stage, err)
				}
				if stage[0] == "LOCK INSTANCE FOR BACKUP" {
					finds(t, examine(t, l.bare(), doctor.Options{Migrate: true, Samples: 1}), "RL111", doctor.Skipped)
				}
				b.over()
				exec(t, l.db, "DROP TABLE rowlock_run")
				b = l.backup(t, stage...)
				s := l.bare()
				ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
				err := s.Migrate(ctx)
				cancel()
				if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "a backup") || !strings.Contains(err.Error(), "`rowlock_run`") {
					t.Errorf("%v: a table is missing: %v", stage, err)
				}
				done := make(chan error, 1)
				go func() { done <- l.bare().Migrate(patient(t)) }()
				b.over()
				must(t, <-done)
			}
		})
	}
}

// TestDoctorDuringBackup: Doctor does not wait for the end of the backup, and fails, because no lock can be taken.
func TestDoctorDuringBackup(t *testing.T) {
	testserver.Long(t)
	t.Parallel()
	for _, kind := range testserver.Some(t, testserver.MySQL, testserver.MariaDB) {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			l := newLabAt(t, kind, testserver.Start(t, kind).DSN(), VersionColumn)
			s := l.store()
			must(t, s.Check(patient(t)))
			b := l.backup(t, "FLUSH TABLES WITH READ LOCK")
			r := examine(t, s, doctor.Options{Samples: 1, TTL: 3 * time.Second})
			finds(t, r, "RL163", doctor.Fail)
			if r.Exit(false) != doctor.ExitFail {
				t.Errorf("exit code %d", r.Exit(false))
			}
			b.over()
		})
	}
}

// TestP8_LockedGap: a transaction that has locked the gap in which the row of a new key belongs keeps it from being made. It does not
// hold the key.
func TestP8_LockedGap(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, l *lab) {
		c := client{t: t, Store: l.store()}
		tx := l.beginAt(t, sql.LevelRepeatableRead)
		_, err := tx.Exec("SELECT name FROM " + l.table() + " WHERE name='k' FOR UPDATE")
		must(t, err)
		results, err := c.Acquire(patient(t), []driver.Request{request("k", time.Minute)})
		if err != nil {
			results = []driver.Result{{Err: err}}
		}
		if r := results[0]; r.Status != driver.Unknown || !driver.IsNotApplied(r.Err) {
			t.Errorf("P8: a key that has no row: %v %v", r.Status, r.Err)
		}
		must(t, tx.Rollback())
		eventually(t, "the key is free", func() bool { return c.acquire(request("k", time.Minute))[0].Status == driver.Granted })
	})
}
