// Package messages writes messages to a file that may not take them: a pipe that nobody reads, a
// terminal that stands still, a disk that is full or hangs. The writer is never kept waiting.
package messages

import (
	"bytes"
	"fmt"
	"io"
	"sync"
	"time"
)

// most is how many messages wait for the file. Further ones are dropped, and counted.
const most = 256

// Writer hands what is written to a goroutine of its own, in the same order. Its methods may be
// called concurrently.
type Writer struct {
	to io.Writer

	mu      sync.Mutex
	waiting [][]byte
	dropped int
	idle    chan struct{} // closed when nothing waits any more; nil: nothing does
}

// New makes a Writer. It starts no goroutine before something is written.
func New(to io.Writer) *Writer { return &Writer{to: to} }

// To is what it writes to.
func (w *Writer) To() io.Writer { return w.to }

// Write takes one message. It does not wait, and its error is always nil.
func (w *Writer) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.waiting) == most {
		w.dropped++
		return len(b), nil
	}
	w.waiting = append(w.waiting, bytes.Clone(b))
	if w.idle == nil {
		w.idle = make(chan struct{})
		go w.write()
	}
	return len(b), nil
}

// write writes all that waits. A message that the file refuses is lost: there is nobody to tell.
func (w *Writer) write() {
	defer ownThread()()
	for {
		w.mu.Lock()
		messages, dropped := w.waiting, w.dropped
		w.waiting, w.dropped = nil, 0
		if len(messages) == 0 {
			close(w.idle)
			w.idle = nil
			w.mu.Unlock()
			return
		}
		w.mu.Unlock()
		for _, m := range messages {
			_, _ = w.to.Write(m)
		}
		if dropped > 0 {
			_, _ = fmt.Fprintf(w.to, "rowlock: %d more messages could not be written\n", dropped)
		}
	}
}

// Flush waits until everything is written, at most so long. What the file does not take meanwhile
// may be written later, or with the end of the process never.
func (w *Writer) Flush(patience time.Duration) {
	w.mu.Lock()
	idle := w.idle
	w.mu.Unlock()
	if idle == nil {
		return
	}
	select {
	case <-idle:
	case <-time.After(patience):
	}
}
