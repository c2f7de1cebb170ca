package logs

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/rowlock/rowlock/internal/queue"
)

// Queue is between a client and the handler of its Logger, which is user code: it may
// block, and it may call the client, in Enabled as well as in Handle. So a log call only
// queues the record, also under a lock and in the goroutine that watches deadlines; whether
// the handler wants it is asked when it is handed over.
type Queue struct {
	to slog.Handler // nil: there is no Logger

	records *queue.Queue[record]

	// Of which no record has told the handler yet. Steps are those that the handler may not want.
	dropped, droppedSteps atomic.Int64
}

// record is a record on its way to its handler.
type record struct {
	ctx  context.Context
	to   slog.Handler
	line *slog.Record // nil: a step
	step step
}

const (
	// maxRecords bounds the records that wait for the handler; what comes then is
	// dropped, and counted. Steps (Debug) get a part of the room, so that they leave
	// some to warnings.
	maxRecords = 2000
	maxSteps   = 1000
)

// handler is the slog.Handler in front of one of the user's.
type handler struct {
	q  *Queue
	to slog.Handler
}

// New makes the Logger of a client, with attributes for each line, and its Queue. Without a
// Logger of the user's nothing is logged.
func New(user *slog.Logger, attrs ...any) (*slog.Logger, *Queue) {
	if user == nil {
		return slog.New(slog.DiscardHandler), new(Queue)
	}
	q := &Queue{to: user.With(attrs...).Handler()}
	q.records = queue.New((*record).handOver, q.tellDropped)
	return slog.New(handler{q, q.to}), q
}

// Enabled does not ask the user's handler, which is asked when the record is handed over.
func (h handler) Enabled(context.Context, slog.Level) bool { return true }

func (h handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return handler{h.q, h.to.WithAttrs(attrs)}
}

func (h handler) WithGroup(name string) slog.Handler {
	return handler{h.q, h.to.WithGroup(name)}
}

// Handle queues the record.
func (h handler) Handle(ctx context.Context, r slog.Record) error {
	r = r.Clone()
	h.q.add(record{ctx: ctx, to: h.to, line: &r}, r.Level <= slog.LevelDebug)
	return nil
}

// add queues a record, or drops it. A step waits a moment for others: there are some for each lease.
func (q *Queue) add(r record, step bool) {
	switch {
	case step && !q.records.Add(&r, maxSteps, false):
		q.droppedSteps.Add(1)
	case !step && !q.records.Add(&r, maxRecords, true):
		q.dropped.Add(1)
	}
}

// handOver hands a record to its handler. An error of the handler is dropped: there is nowhere to log it.
func (r *record) handOver() {
	level := slog.LevelDebug
	if r.line != nil {
		level = r.line.Level
	}
	if !r.to.Enabled(r.ctx, level) {
		return
	}
	if r.line != nil {
		_ = r.to.Handle(r.ctx, *r.line)
		return
	}
	_ = r.to.Handle(r.ctx, r.step.record())
}

// tellDropped tells the handler how many records were dropped, and steps if it wants any.
func (q *Queue) tellDropped() {
	ctx := context.Background()
	n, steps := q.dropped.Swap(0), q.droppedSteps.Swap(0)
	if steps > 0 && q.to.Enabled(ctx, slog.LevelDebug) {
		n += steps
	}
	if n == 0 || !q.to.Enabled(ctx, slog.LevelWarn) {
		return
	}
	r := slog.NewRecord(time.Now(), slog.LevelWarn, "log records were dropped: the handler took them too slowly", 0)
	r.Add("n", n)
	_ = q.to.Handle(ctx, r)
}

// Flush waits until every record was handed over, or ctx ends. A handler that takes
// longer than patience for one record is not waited for: it may be waiting for the
// caller, if that is the handler itself.
func (q *Queue) Flush(ctx context.Context, patience time.Duration) {
	if q.records != nil {
		q.records.Flush(ctx, patience)
	}
}
