package history

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rowlock/rowlock/internal/clock"
)

// Now is the time by the clock of the events.
func Now() time.Duration { return clock.Now() }

// Recorder writes the events of one process. Each is in the file before the call
// that records it returns, so a process that is killed leaves behind all that it
// did. It is safe for concurrent use.
//
// A call is recorded when it is over:
//
//	e := r.Begin(history.Event{Kind: history.Look, Space: space, Key: key, Lease: lease})
//	err := l.Err()
//	e.Result = …
//	r.End(e)
//
// and one that may take effect although nobody sees its reply (Write, Read, Commit)
// with Open in the place of Begin. The ID that Begin gave the Acquire of a lease is
// what later events name as their Lease: record the end of an Acquire before the
// lease is used.
type Recorder struct {
	client string
	file   *os.File
	last   atomic.Int64
	fault  atomic.Pointer[error]
}

// Create starts the file of a process in folder. The name of the client must be new
// in the folder: a process that takes the place of a killed one has a name of its own.
func Create(folder, client string) (*Recorder, error) {
	f, err := os.OpenFile(filepath.Join(folder, client+extension), os.O_WRONLY|os.O_CREATE|os.O_EXCL|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	return &Recorder{client: client, file: f}, nil
}

// Begin gives e its ID, the recorder's client (if it names none) and the time.
// Nothing is written.
func (r *Recorder) Begin(e Event) Event {
	r.name(&e)
	e.Begin = Now()
	return e
}

// Open is Begin for what is sent to a server and may take effect although nobody sees
// the reply: e is written now, without an end, and once more by End.
func (r *Recorder) Open(e Event) Event {
	e = r.Begin(e)
	e.End = 0
	r.write(&e)
	return e
}

// End gives e the time, as its end, and writes it.
func (r *Recorder) End(e Event) {
	e.End = Now()
	r.write(&e)
}

// Add writes e as it is, with an ID if it has none: for what was not timed by Begin
// and End, as the row of a ledger, or an event whose reply was never seen.
func (r *Recorder) Add(e Event) {
	r.name(&e)
	r.write(&e)
}

// Err is the first failure to write. A history with a hole proves nothing, so a round
// whose recorder failed must not be judged.
func (r *Recorder) Err() error {
	if err := r.fault.Load(); err != nil {
		return *err
	}
	return nil
}

// Close ends the recording. Its error is that of the first event that could not be
// written, or of closing the file.
func (r *Recorder) Close() error { return errors.Join(r.Err(), r.file.Close()) }

func (r *Recorder) name(e *Event) {
	if e.ID == 0 {
		e.ID = r.last.Add(1)
	}
	if e.Client == "" {
		e.Client = r.client
	}
}

var lines = sync.Pool{New: func() any { b := make([]byte, 0, 512); return &b }}

// write is one write(2) of a whole line: what a kill leaves is torn in its last line
// at most.
func (r *Recorder) write(e *Event) {
	b := lines.Get().(*[]byte)
	*b = appendLine((*b)[:0], e)
	if _, err := r.file.Write(*b); err != nil {
		r.fault.CompareAndSwap(nil, &err)
	}
	lines.Put(b)
}
