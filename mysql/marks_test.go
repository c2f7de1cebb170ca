package mysqllock

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/rowlock/rowlock"
)

// TestMarks: the marks of one key, the newest first, with their ages by the server's clock.
func TestMarks(t *testing.T) {
	everywhere(t, func(t *testing.T, l *lab) {
		ctx := patient(t)
		a := l.program(t, rowlock.Options{})
		nothing := func(context.Context, *sql.Tx) error { return nil }
		lease := a.lock(t, "k")
		for _, run := range []string{"old", "new", "\xff\x00"} {
			must(t, a.Once(ctx, lease, run, nothing))
		}
		must(t, a.Once(ctx, a.lock(t, "k2"), "of another key", nothing))
		must(t, a.Once(ctx, a.lock(t, "K"), "of another key", nothing))
		exec(t, l.db, "UPDATE rowlock_run SET at=at-INTERVAL 2 HOUR WHERE run='old'")
		exec(t, l.db, "UPDATE rowlock_run SET at=at-INTERVAL 1 HOUR WHERE run='new'")
		marks, err := a.Marks(ctx, "k", 10)
		must(t, err)
		if len(marks) != 3 || marks[0].Run != "\xff\x00" || marks[1].Run != "new" || marks[2].Run != "old" {
			t.Fatalf("marks %+v", marks)
		}
		for i, m := range marks {
			if hours := m.Age.Truncate(time.Hour); m.Key != "k" || m.Token != lease.Token() || hours != time.Duration(i)*time.Hour || m.At.IsZero() {
				t.Errorf("mark %+v, want %d hours old, with token %d", m, i, lease.Token())
			}
		}
		if marks, err := a.Marks(ctx, "k", 1); err != nil || len(marks) != 1 || marks[0].Run != "\xff\x00" {
			t.Errorf("the newest mark: %+v, %v", marks, err)
		}
		if marks, err := a.Marks(ctx, "never", 1); err != nil || len(marks) != 0 {
			t.Errorf("marks of a key that has none: %+v, %v", marks, err)
		}
		if _, err := a.Marks(ctx, "k", 0); !errors.Is(err, rowlock.ErrInvalid) {
			t.Errorf("limit 0: %v", err)
		}
		if _, err := a.Marks(ctx, "", 1); !errors.Is(err, rowlock.ErrInvalid) {
			t.Errorf("an empty key: %v", err)
		}
		exec(t, l.db, "DROP TABLE rowlock_run")
		if _, err := a.Marks(ctx, "k", 1); !errors.Is(err, rowlock.ErrSchema) {
			t.Errorf("without the table: %v", err)
		}
	})
}
