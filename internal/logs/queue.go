package logs

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/rowlock/rowlock/internal/drain"
)

// Queue is between a client and the handler of its Logger, which is user code: it may
// block, and it may call the client, in Enabled as well as in Handle. So a log call only
// queues the record, also under a lock and in the goroutine that watches deadlines; a
// goroutine that runs while there are records asks the handler whether it wants them, and
// hands them over, one after the other.
type Queue struct {
	to slog.Handler // nil: there is no Logger

	mu           sync.Mutex
	records      []record // from head on
	head         int
	written      uint64 // since the client was made
	dropped      int    // of which no record has told the handler yet
	droppedSteps int    // the same for steps, which the handler may not want
	running      bool   // the goroutine, or it is about to
	timer        *time.Timer
	empty        chan struct{} // closed when no record is left; nil: nobody asked
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

	// gather is how long the first step waits for others: there are some for each lease, and
	// to wake the goroutine costs more than a step.
	gather = time.Millisecond
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

// add queues a record, or drops it.
func (q *Queue) add(r record, step bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch waiting := len(q.records) - q.head; {
	case step && waiting >= maxSteps:
		q.droppedSteps++
		return
	case waiting >= maxRecords:
		q.dropped++
		return
	}
	if len(q.records) == cap(q.records) && q.head > len(q.records)/2 {
		n := copy(q.records, q.records[q.head:])
		clear(q.records[n:])
		q.records, q.head = q.records[:n], 0
	}
	q.records = append(q.records, r)
	switch {
	case q.running:
		return
	case !step:
		go q.run()
	case q.timer == nil:
		q.timer = time.AfterFunc(gather, q.run)
	default:
		q.timer.Reset(gather)
	}
	q.running = true
}

// run hands the records to the handler.
func (q *Queue) run() {
	for q.handOver() {
	}
}

// handOver hands the oldest record to its handler; behind the last one comes the count of
// those that were dropped. false: there was none. An error of the handler is dropped: there is
// nowhere to log it.
func (q *Queue) handOver() bool {
	q.mu.Lock()
	if q.head < len(q.records) {
		r := q.records[q.head]
		q.records[q.head] = record{}
		q.head++
		q.written++
		q.mu.Unlock()
		r.handOver()
		return true
	}
	q.records, q.head = q.records[:0], 0
	n, steps := q.dropped, q.droppedSteps
	q.dropped, q.droppedSteps = 0, 0
	if n+steps == 0 {
		q.running = false
		if q.empty != nil {
			close(q.empty)
			q.empty = nil
		}
	}
	q.mu.Unlock()
	if n+steps == 0 {
		return false
	}
	q.tellDropped(n, steps)
	return true
}

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
func (q *Queue) tellDropped(n, steps int) {
	ctx := context.Background()
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
	drain.Wait(ctx, patience, func() (<-chan struct{}, uint64) {
		q.mu.Lock()
		defer q.mu.Unlock()
		if !q.running {
			return nil, 0
		}
		if q.empty == nil {
			q.empty = make(chan struct{})
		}
		return q.empty, q.written
	})
}
