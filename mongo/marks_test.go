package mongolock

import (
	"context"
	"testing"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/mongo/internal/document"
)

// TestMarks: the marks of one key, the newest first, with their ages by the server's clock.
func TestMarks(t *testing.T) {
	t.Parallel()
	s := shared(t)
	c := locker(t, s, rowlock.Options{})
	lease := guarded(t, c, "k")
	none := func(context.Context) error { return nil }
	for _, run := range []string{"old", "new", "\xff\x00"} {
		must(t, s.Once(patient(t), lease, run, none))
	}
	must(t, s.Once(patient(t), guarded(t, c, "k2"), "of another key", none))
	must(t, s.Once(patient(t), guarded(t, c, "K"), "of another key", none))
	for hours, run := range []string{1: "new", 2: "old"} {
		if run != "" {
			_, err := s.db.Collection(s.runs).UpdateOne(t.Context(), document.Op("_id", runID("k", run)), document.Op("$set", document.Op("at", time.Now().Add(-time.Duration(hours)*time.Hour-time.Second))))
			must(t, err)
		}
	}
	marks, err := s.Marks(t.Context(), "k", 10)
	must(t, err)
	if len(marks) != 3 || marks[0].Run != "\xff\x00" || marks[1].Run != "new" || marks[2].Run != "old" {
		t.Fatalf("marks %+v", marks)
	}
	for i, m := range marks {
		if hours := m.Age.Truncate(time.Hour); m.Key != "k" || m.Token != lease.Token() || hours != time.Duration(i)*time.Hour || m.At.IsZero() {
			t.Errorf("mark %+v, want %d hours old, with token %d", m, i, lease.Token())
		}
	}
	if marks, err := s.Marks(t.Context(), "k", 1); err != nil || len(marks) != 1 || marks[0].Run != "\xff\x00" {
		t.Errorf("the newest mark: %+v, %v", marks, err)
	}
	if marks, err := s.Marks(t.Context(), "never", 1); err != nil || len(marks) != 0 {
		t.Errorf("marks of a key that has none: %+v, %v", marks, err)
	}
	_, err = s.Marks(t.Context(), "k", 0)
	wants(t, "limit 0", err, rowlock.ErrInvalid)
	_, err = s.Marks(t.Context(), "", 1)
	wants(t, "an empty key", err, rowlock.ErrInvalid)
}
