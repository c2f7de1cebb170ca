package logs

import (
	"context"
	"log/slog"
	"time"

	"github.com/rowlock/rowlock/driver"
)

// step is a line (Debug) of what each lease has. Whether the handler wants it is not known
// before it is handed over, so its record is made then: until there it costs little.
type step struct {
	at      time.Time
	message string
	key     string
	mode    driver.Mode
	token   int64
	hold    driver.HoldID
}

// Step logs a step of a lease. ctx is the context of the call that it belongs to.
func (q *Queue) Step(ctx context.Context, message string, h *driver.Hold, token int64) {
	if q.to != nil {
		q.addStep(ctx, message, h, token)
	}
}

func (q *Queue) addStep(ctx context.Context, message string, h *driver.Hold, token int64) {
	q.add(record{ctx: ctx, to: q.to, step: step{time.Now(), message, h.Key, h.Mode, token, h.ID}}, true)
}

func (s *step) record() slog.Record {
	r := slog.NewRecord(s.at, slog.LevelDebug, s.message, 0)
	r.Add(Attrs(s.key, s.mode, "token", s.token, "hold", s.hold)...)
	return r
}
