package logs

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/rowlock/rowlock/internal/drain"
)

// Queue is between a client and the handler of its Logger, which is user code: it may
// block, and it may call the client. So a log call only queues the record, also under a
// lock and in the goroutine that watches deadlines; a goroutine that runs while there are
// records hands them to the handler, one after the other.
type Queue struct {
	mu      sync.Mutex
	records []record
	written uint64 // since the client was made
	dropped int    // of which no record has told the handler yet
	running bool
	empty   chan struct{} // closed when no record is left; nil: nobody asked
}

// record is a record on its way to its handler.
type record struct {
	ctx context.Context
	to  slog.Handler
	r   slog.Record
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

// New makes the Logger of a client; without a handler nothing is logged.
func New(user *slog.Logger) (*slog.Logger, *Queue) {
	if user == nil {
		return slog.New(slog.DiscardHandler), new(Queue)
	}
	q := new(Queue)
	return slog.New(handler{q, user.Handler()}), q
}

// Enabled asks the user's handler about steps only, which are logged where no lock is
// held: their arguments cost more than a step. About others it is asked when the
// record is handed over.
func (h handler) Enabled(ctx context.Context, level slog.Level) bool {
	return level > slog.LevelDebug || h.to.Enabled(ctx, level)
}

func (h handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return handler{h.q, h.to.WithAttrs(attrs)}
}

func (h handler) WithGroup(name string) slog.Handler {
	return handler{h.q, h.to.WithGroup(name)}
}

// Handle queues the record.
func (h handler) Handle(ctx context.Context, r slog.Record) error {
	q := h.q
	q.mu.Lock()
	defer q.mu.Unlock()
	most := maxRecords
	if r.Level <= slog.LevelDebug {
		most = maxSteps
	}
	if len(q.records) >= most {
		q.dropped++
		return nil
	}
	q.records = append(q.records, record{ctx, h.to, r.Clone()})
	if !q.running {
		q.running = true
		go q.run()
	}
	return nil
}

// run hands the records to the handler. An error of the handler is dropped: there is
// nowhere to log it.
func (q *Queue) run() {
	for {
		next, ok := q.next()
		if !ok {
			return
		}
		if next.to.Enabled(next.ctx, next.r.Level) {
			_ = next.to.Handle(next.ctx, next.r)
		}
	}
}

// next takes the oldest record out; behind the last one comes the count of those that
// were dropped.
func (q *Queue) next() (next record, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.records) == 0 {
		q.running = false
		if q.empty != nil {
			close(q.empty)
			q.empty = nil
		}
		return next, false
	}
	next = q.records[0]
	q.records[0] = record{}
	q.records = q.records[1:]
	q.written++
	if len(q.records) == 0 && q.dropped > 0 {
		r := slog.NewRecord(time.Now(), slog.LevelWarn, "log records were dropped: the handler took them too slowly", 0)
		r.Add("n", q.dropped)
		q.records, q.dropped = append(q.records, record{context.Background(), next.to, r}), 0
	}
	return next, true
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
