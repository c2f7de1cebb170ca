package logs

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// Failures sums up failures of one kind, so that an outage is a few lines in the log and
// not one for each lease and try: one when it begins, for what fails together, then one a
// minute that says for how long, and one when it works again.
//
// Most kinds have a state: a lease whose last renewal failed goes on failing until one
// is acknowledged. Its owner counts it by More and Less, and n in a line is how many
// were failing since the line before. Kinds without one count by Fail.
type Failures struct {
	log       *slog.Logger
	now       func() time.Duration
	level     slog.Level
	failed    string        // the message of a failure
	recovered string        // and of its end; empty: it has none
	every     time.Duration // how far apart the lines of failures are at least, after the first; 0: repeatEvery

	open atomic.Bool // failures were logged, their end was not: read without mu

	mu          sync.Mutex
	failing     int           // now
	n           int           // failing since the first failure that is in no line yet
	most        int           // failing at once, or in all where there is no state, since it began
	since       time.Duration // when it began
	last        time.Duration // the last failure
	lastLine    time.Duration // when the last line was written; 0: not yet
	told        bool          // the first line of it was written
	unlogged    bool          // there are failures that are in no line yet
	recoveredAt time.Duration // when it worked again; 0: it does not
	ctx         context.Context
	example     []any // attributes of the first of those failures
	timer       *time.Timer
	due         time.Duration // when timer ends
}

const (
	// repeatEvery is how far apart the lines of one outage are. What has no line for its end is over when nothing failed for
	// as long.
	repeatEvery = time.Minute

	// linesApart is how far apart the lines of a kind are at least.
	linesApart = time.Second

	// gatherFor is how long the first failure waits for others: those of a batch
	// come one by one.
	gatherFor = 20 * time.Millisecond
)

// More notes that n more are failing.
func (t *Failures) More(n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.failing += n
	t.n = max(t.n, t.failing)
	t.most = max(t.most, t.failing)
}

// Less notes that n fail no more: they work, or are over.
func (t *Failures) Less(n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.failing -= n
}

// Fail logs failures, counted by More, or n that have no state. example are the
// attributes of one of them. ctx is its caller's, or Background.
func (t *Failures) Fail(ctx context.Context, n int, example ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.now()
	if !t.open.Load() || t.recovered == "" && now-t.last >= repeatEvery {
		t.open.Store(true)
		t.since, t.most, t.told = now, max(t.failing, 1-n), false
	}
	t.recoveredAt, t.last = 0, now
	if !t.unlogged {
		t.unlogged, t.ctx, t.example, t.n = true, ctx, example, max(t.failing, 1-n)
	}
	t.n += n
	t.most += n
	apart := linesApart
	if t.told {
		apart = cmp.Or(t.every, repeatEvery)
	}
	t.writeIn(now, max(t.lastLine+apart-now, gatherFor))
}

// OK notes that the database has answered: if none is failing any more it is over.
func (t *Failures) OK() {
	if !t.open.Load() {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.open.Load() || t.failing > 0 || t.recoveredAt > 0 {
		return
	}
	now := t.now()
	t.recoveredAt = max(now, 1)
	t.writeIn(now, max(t.lastLine+linesApart-now, 0))
}

// writeIn writes what there is to say after d, if nothing sooner is planned. Called under t.mu.
func (t *Failures) writeIn(now, d time.Duration) {
	if t.timer != nil && t.due <= now+d {
		return
	}
	if t.timer != nil {
		t.timer.Stop()
	}
	t.due = now + d
	t.timer = time.AfterFunc(d, t.write)
}

// write writes the line that is due.
func (t *Failures) write() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.timer == nil {
		return // flushed meanwhile
	}
	t.timer.Stop()
	t.timer = nil
	now := t.now()
	over := t.recoveredAt > 0
	if t.unlogged && !(over && t.told && t.recovered != "") { // the line of its end counts them
		attrs := []any{"n", t.n}
		if t.told && t.every == 0 {
			attrs = append(attrs, "after", now-t.since)
		}
		t.log.Log(t.ctx, t.level, t.failed, append(attrs, t.example...)...)
		t.unlogged, t.told, t.ctx, t.example, t.lastLine = false, true, nil, nil, max(now, 1)
		if over {
			t.writeIn(now, linesApart)
		}
		return
	}
	if !over {
		return
	}
	t.open.Store(false)
	t.unlogged, t.ctx, t.example = false, nil, nil
	if t.recovered != "" {
		t.log.Log(context.Background(), slog.LevelInfo, t.recovered, "n", t.most, "after", t.recoveredAt-t.since)
		t.lastLine = max(now, 1)
	}
}

// Flush writes at once what there is to say.
func (t *Failures) Flush() {
	for range 2 { // failures, and their end
		t.write()
	}
}

// Losses logs the ends of leases that their holders did not ask for: the first of them with a
// line each, the others added up.
type Losses struct {
	line slog.Level
	text string
	sum  Failures

	mu   sync.Mutex
	from time.Duration
	n    int
}

const (
	// lossLines is how many lines there are in a lossPeriod.
	lossLines  = 20
	lossPeriod = 10 * time.Second
)

// Add logs one end. ctx is the context of the call that brought it about or learnt of it, or Background.
func (l *Losses) Add(ctx context.Context, attrs ...any) {
	l.mu.Lock()
	now := l.sum.now()
	if l.n == 0 || now-l.from >= lossPeriod {
		l.from, l.n = now, 0
	}
	l.n++
	own := l.n <= lossLines
	l.mu.Unlock()
	if own {
		l.sum.log.Log(ctx, l.line, l.text, attrs...)
		return
	}
	l.sum.Fail(ctx, 1, attrs...)
}

// Report has the kinds of failures that a client logs.
type Report struct {
	Renew, Acquire, Unknown, Undo, Release, Watch, Loops Failures
	Lost, Closed, Refused                                Losses
}

// Init prepares the kinds: their lines go to log, their times are those of now.
func (t *Report) Init(log *slog.Logger, now func() time.Duration) {
	for _, k := range []struct {
		t                 *Failures
		level             slog.Level
		failed, recovered string
	}{
		{&t.Renew, slog.LevelWarn, "renewal failed, lease still trusted", "renewals are acknowledged again"},
		{&t.Acquire, slog.LevelWarn, "acquire failed, trying again", "acquires are answered again"},
		{&t.Unknown, slog.LevelWarn, "outcome of an acquire is unknown; undoing it", ""},
		{&t.Undo, slog.LevelWarn, "a hold could not be undone yet; trying again", "holds can be undone again"},
		{&t.Release, slog.LevelWarn, "release not answered; repeating it", "releases are answered again"},
		{&t.Watch, slog.LevelWarn, "the stream for Observe ended; asking once a second until it is back", "the stream for Observe is back"},
		{&t.Loops, slog.LevelError, "the database refuses what a loop needs; mend that: the loop waits, and goes on", "the database serves the loops again"},
		{&t.Lost.sum, slog.LevelError, "more leases lost", ""},
		{&t.Refused.sum, slog.LevelError, "the database refuses to release more holds; their keys stay taken until their TTLs end", ""},
		{&t.Closed.sum, slog.LevelWarn, "client closed with more leases held; releasing them", ""},
	} {
		if k.recovered == "" && k.t != &t.Unknown {
			k.t.every = linesApart // each is news
		}
		k.t.log, k.t.now, k.t.level, k.t.failed, k.t.recovered = log, now, k.level, k.failed, k.recovered
	}
	t.Lost.line, t.Lost.text = slog.LevelError, "lease lost"
	t.Refused.line, t.Refused.text = slog.LevelError, "the database refuses to release a hold; its key stays taken until its TTL ends"
	t.Closed.line, t.Closed.text = slog.LevelWarn, "client closed with a lease held; releasing it"
}

// Flush writes what has not been written yet.
func (t *Report) Flush() {
	for _, k := range []*Failures{&t.Renew, &t.Acquire, &t.Unknown, &t.Undo, &t.Release, &t.Watch, &t.Loops, &t.Lost.sum, &t.Closed.sum, &t.Refused.sum} {
		k.Flush()
	}
}
