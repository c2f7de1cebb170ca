package mongolock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/mongo/internal/document"
)

// One document that a foreign transaction has written stops the whole command it
// is in: those behind it are not reached, in whatever form the command is sent
// (ordered:false steps over errors, not over a wait). So a command has little time
// (limit.go). What one that was stopped has done is read at the majority; where it
// stood is the first document, in the order of the index, that it has not done.
// That one goes out singly, and beside it all others once more in one command. Only
// where they are stopped again (more than one document is blocked, or the server is
// slow) the batch is split into smaller and smaller parts, down to single documents.

// splitter is a step for several keys. Entries are indexes into the call.
type splitter struct {
	limit    *batchLimit
	parallel int // how many commands to send at once after the first stop

	// send sends one command for the entries and decides them, or returns a stop, or an
	// error that means unknown for all.
	send func(ctx context.Context, entries []int, wait time.Duration) error

	// resend is send after a stop of which it is not known what was done.
	resend func(ctx context.Context, entries []int, wait time.Duration) error

	// progress decides what a command that was stopped has done. Of the others it returns
	// those that go out singly, beginning with the one where the command stood, and the
	// rest, to be sent again. known is false if it could not find out.
	progress func(ctx context.Context, stop error, entries []int) (single, rest []int, known bool)

	single func(ctx context.Context, entry int) (blocked bool) // decides it

	// splitUp: a command was stopped of which it is not known what it has done.
	splitUp bool

	fail func(ctx context.Context, entries []int, err error) // decides them
}

// run decides the entries, or returns an error that means unknown for all. They
// are in the order of inOrder.
func (t *splitter) run(ctx context.Context, entries []int) error {
	err := t.send(ctx, entries, t.limit.of(len(entries)))
	if !stopped(err) {
		return err
	}
	single, rest, known := t.progress(ctx, err, entries)
	if !known {
		t.splitUp = true
		t.splitFurther(ctx, entries, t.resend, t.parallel)
		return nil
	}
	blocked := false
	var again error
	steps := []func(){}
	if len(rest) > 0 {
		steps = append(steps, func() { again = t.send(ctx, rest, t.limit.of(len(rest))) })
	}
	for n, i := range single {
		steps = append(steps, func() {
			if is := t.single(ctx, i); n == 0 {
				blocked = is
			}
		})
	}
	inParallel(len(steps), t.parallel, func(i int) { steps[i]() })
	if !blocked && !corruptDocument(err) {
		t.limit.tooShort(len(entries))
	}
	t.splitUp = stopped(again)
	switch {
	case stopped(again) && blocked: // some more are
		t.splitFurther(ctx, rest, t.resend, parallel)
	case stopped(again):
		t.splitFurther(ctx, rest, t.resend, 1)
	case again != nil:
		t.fail(ctx, rest, again)
	}
	return nil
}

// splitFurther goes on with smaller commands, a few at a time, down to single keys.
func (t *splitter) splitFurther(ctx context.Context, entries []int, send func(context.Context, []int, time.Duration) error, atOnce int) {
	size := max(1, len(entries)/parallel)
	inParallel((len(entries)+size-1)/size, atOnce, func(i int) {
		part := entries[i*size : min(len(entries), (i+1)*size)]
		if len(part) == 1 {
			t.single(ctx, part[0])
			return
		}
		switch err := send(ctx, part, t.limit.of(len(part))); {
		case stopped(err):
			t.splitFurther(ctx, part, send, atOnce)
		case err != nil:
			t.fail(ctx, part, err)
		}
	})
}

// stop is the error of a command with several keys that waited for somebody else's
// transaction, took too long, or stumbled over a document that was changed by hand.
// Some keys may be done, on the primary.
type stop struct{ error }

func (s *stop) Unwrap() error { return s.error }

// stopOf turns an error that means so into a stop.
func stopOf(err error) error {
	if blocked(err) || conflicted(err) || corruptDocument(err) {
		return &stop{err}
	}
	return err
}

func stopped(err error) bool {
	var s *stop
	return errors.As(err, &s)
}

// afterStop reads, after a command was stopped, the documents of keys as the majority
// has them, not before the moment of the stop. false: it could not. A standalone
// server has no such moment, and no other node either.
func (s *Store) afterStop(ctx context.Context, stop error, keys []string) (map[string]document.State, bool) {
	after := operationTimeOf(stop)
	if after == nil && !s.standalone.Load() {
		return nil, false
	}
	ctx, cancel := context.WithTimeout(ctx, undoWait) // the majority may be far behind
	defer cancel()
	states, err := s.states(ctx, keys, after)
	return states, err == nil
}

// inOrder lists the indexes of n keys in the order of the index on _id, in which
// commands reach the documents: Binary compares by length first. With one order
// for all, no two commands wait for each other.
func inOrder(n int, key func(int) string) []int {
	entries := make([]int, n)
	for i := range entries {
		entries[i] = i
	}
	slices.SortFunc(entries, func(x, y int) int {
		a, b := key(x), key(y)
		return cmp.Or(cmp.Compare(len(a), len(b)), strings.Compare(a, b))
	})
	return entries
}

// pickHolds lists the holds that entries name.
func pickHolds(holds []driver.Hold, entries []int) []driver.Hold {
	some := make([]driver.Hold, len(entries))
	for n, i := range entries {
		some[n] = holds[i]
	}
	return some
}

func keysOf(holds []driver.Hold) []string {
	keys := make([]string, len(holds))
	for i, h := range holds {
		keys[i] = h.Key
	}
	return keys
}

// names is for messages: one key by its name, more by their number.
func names(keys []string) string {
	if len(keys) == 1 {
		return fmt.Sprintf("%q", keys[0])
	}
	return fmt.Sprintf("%d keys", len(keys))
}

// inParallel runs do for 0 to n-1, a few at a time, and returns when all have.
func inParallel(n, atOnce int, do func(i int)) {
	if n == 1 || atOnce == 1 {
		for i := range n {
			do(i)
		}
		return
	}
	var wg sync.WaitGroup
	slots := make(chan struct{}, atOnce)
	for i := range n {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			do(i)
		})
	}
	wg.Wait()
}
