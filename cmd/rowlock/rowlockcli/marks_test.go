package rowlockcli

import (
	"testing"
	"time"

	"github.com/rowlock/rowlock/driver"
)

// TestLastBegin: a run of --period began when its ID says, another one when it was marked.
func TestLastBegin(t *testing.T) {
	at := func(text string) time.Time {
		v, err := time.Parse(time.RFC3339Nano, text)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	marked := at("2026-03-01T10:30:00Z")
	for _, c := range []struct {
		name  string
		marks []driver.Mark
		want  time.Time
	}{
		{"none", nil, time.Time{}},
		{"of --period", []driver.Mark{{Run: "period 2026-03-01T10:00:00.250000Z", At: marked}}, at("2026-03-01T10:00:00.25Z")},
		{"of --run", []driver.Mark{{Run: "march", At: marked}}, marked},
		{"no time", []driver.Mark{{Run: "period yesterday", At: marked}}, marked},
		{"the last one", []driver.Mark{
			{Run: "period 2026-03-01T10:00:00.000000Z", At: marked}, {Run: "period 2026-03-01T10:20:00.000000Z", At: marked}, {Run: "march", At: marked.Add(-time.Hour)},
		}, at("2026-03-01T10:20:00Z")},
	} {
		if got := lastBegin(c.marks); !got.Equal(c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}
