package rowlock

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// trouble sums up failures of one kind, so that an outage is a few lines in the log and
// not one for each lease and try: what fails together has one line, there is at most
// one a second, and one tells when it works again.
//
// Most kinds have a state: a lease whose last renewal failed goes on failing until one
// is acknowledged. Its owner counts it by more and less, and n in a line is how many
// were failing since the line before. Kinds without one count by fail.
type trouble struct {
	c      *Client
	level  slog.Level
	failed string // the message of a failure
	works  string // and of its end; empty: it has none

	open atomic.Bool // failures were told of, their end was not: read without mu

	mu      sync.Mutex
	failing int // now
	n       int // failing since the first failure of which no line has told
	most    int // failing at once, or in all where there is no state, since it began
	since   time.Duration
	told    time.Duration // of the last line; 0: none
	untold  bool          // there are failures that no line has told of
	over    time.Duration // when it worked again; 0: it does not
	ctx     context.Context
	example []any // attributes of the first of those failures
	timer   *time.Timer
}

const (
	// troubleEvery is how far apart the lines of a kind are at least.
	troubleEvery = time.Second

	// troubleGather is how long the first failure waits for others: those of a batch
	// come one by one.
	troubleGather = 20 * time.Millisecond
)

// more notes that n more are failing.
func (t *trouble) more(n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.failing += n
	t.n = max(t.n, t.failing)
	t.most = max(t.most, t.failing)
}

// less notes that n fail no more: they work, or are over.
func (t *trouble) less(n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.failing -= n
}

// fail tells of failures, counted by more, or n that have no state. example are the
// attributes of one of them. ctx is its caller's, or Background.
func (t *trouble) fail(ctx context.Context, n int, example ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.c.now()
	if !t.open.Load() {
		t.open.Store(true)
		t.since, t.most = now, max(t.failing, 1-n)
	}
	t.over = 0
	if !t.untold {
		t.untold, t.ctx, t.example, t.n = true, ctx, example, max(t.failing, 1-n)
	}
	t.n += n
	t.most += n
	t.writeIn(max(t.told+troubleEvery-now, troubleGather))
}

// ok notes that the database has answered: if none is failing any more it is over.
func (t *trouble) ok() {
	if !t.open.Load() {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.open.Load() || t.failing > 0 || t.over > 0 {
		return
	}
	now := t.c.now()
	t.over = max(now, 1)
	t.writeIn(max(t.told+troubleEvery-now, 0))
}

// writeIn writes what there is to say after d, if that is not planned already. Called
// under t.mu.
func (t *trouble) writeIn(d time.Duration) {
	if t.timer == nil {
		t.timer = time.AfterFunc(d, t.write)
	}
}

// write writes the line that is due.
func (t *trouble) write() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.timer == nil {
		return // flushed meanwhile
	}
	t.timer.Stop()
	t.timer = nil
	now := t.c.now()
	if t.untold {
		t.untold = false
		t.c.log.Log(t.ctx, t.level, t.failed, append([]any{"n", t.n}, t.example...)...)
		t.ctx, t.example, t.told = nil, nil, max(now, 1)
		if t.over > 0 {
			t.writeIn(troubleEvery)
		}
		return
	}
	if t.over == 0 {
		return
	}
	t.open.Store(false)
	if t.works != "" {
		t.c.log.Log(context.Background(), slog.LevelInfo, t.works, "n", t.most, "after", t.over-t.since)
		t.told = max(now, 1)
	}
}

// flush writes at once what there is to say.
func (t *trouble) flush() {
	for range 2 { // failures, and their end
		t.write()
	}
}

// losses logs ends of leases that their holders did not ask for: the first of them with a
// line each, the others added up.
type losses struct {
	line slog.Level
	text string
	sum  trouble

	mu   sync.Mutex
	from time.Duration
	n    int
}

const (
	// lossLines is how many lines there are in a lossPeriod.
	lossLines  = 20
	lossPeriod = 10 * time.Second
)

func (l *losses) add(attrs ...any) {
	l.mu.Lock()
	now := l.sum.c.now()
	if l.n == 0 || now-l.from >= lossPeriod {
		l.from, l.n = now, 0
	}
	l.n++
	own := l.n <= lossLines
	l.mu.Unlock()
	if own {
		l.sum.c.log.Log(context.Background(), l.line, l.text, attrs...)
		return
	}
	l.sum.fail(context.Background(), 1, attrs...)
}

// troubles are the kinds of failures that a client logs.
type troubles struct {
	renew, acquire, unknown, undo, release, watch trouble
	lost, closed, refused                         losses
}

func (t *troubles) init(c *Client) {
	for _, k := range []struct {
		t             *trouble
		level         slog.Level
		failed, works string
	}{
		{&t.renew, slog.LevelWarn, "renewal failed, lease still trusted", "renewals are acknowledged again"},
		{&t.acquire, slog.LevelWarn, "acquire failed, trying again", "acquires are answered again"},
		{&t.unknown, slog.LevelWarn, "outcome of an acquire is unknown; undoing it", ""},
		{&t.undo, slog.LevelWarn, "a hold could not be undone yet; trying again", "holds can be undone again"},
		{&t.release, slog.LevelWarn, "release not answered; repeating it", "releases are answered again"},
		{&t.watch, slog.LevelWarn, "the stream that wakes waiters ended; probing until it is back", "the stream that wakes waiters is back"},
		{&t.lost.sum, slog.LevelError, "more leases lost", ""},
		{&t.refused.sum, slog.LevelError, "the database refuses to release more holds; their keys stay taken until their TTLs end", ""},
		{&t.closed.sum, slog.LevelWarn, "client closed with more leases held; releasing them", ""},
	} {
		k.t.c, k.t.level, k.t.failed, k.t.works = c, k.level, k.failed, k.works
	}
	t.lost.line, t.lost.text = slog.LevelError, "lease lost"
	t.refused.line, t.refused.text = slog.LevelError, "the database refuses to release a hold; its key stays taken until its TTL ends"
	t.closed.line, t.closed.text = slog.LevelWarn, "client closed with a lease held; releasing it"
}

// flush writes what has not been written yet.
func (t *troubles) flush() {
	for _, k := range []*trouble{&t.renew, &t.acquire, &t.unknown, &t.undo, &t.release, &t.watch, &t.lost.sum, &t.closed.sum, &t.refused.sum} {
		k.flush()
	}
}
