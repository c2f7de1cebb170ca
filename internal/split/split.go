package split

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/rowlock/rowlock/internal/order"
)

// Parts is into how many commands a batch is split at a time.
const Parts = 8

// Limit is how long a command may take.
type Limit interface {
	Of(n int) time.Duration // of a command with n keys
	TooShort(n int)         // it stopped a command with n keys that nothing blocked
}

// Step is what is done with several keys. Entries are indexes into the call; a method
// decides an entry when it stores the entry's answer.
type Step interface {
	// Send sends one command for the entries and decides them, or returns a stop, or an
	// error that means unknown for all.
	Send(ctx context.Context, entries []int, wait time.Duration) error

	// Resend is Send after a stop of which it is not known what was done.
	Resend(ctx context.Context, entries []int, wait time.Duration) error

	// Progress decides what a command that was stopped has done. Of the others it returns
	// those that go out singly, beginning with the one where the command stood, and the
	// rest, to be sent again. known is false if it could not find out.
	Progress(ctx context.Context, stop error, entries []int) (single, rest []int, known bool)

	// Single sends a command for one entry and decides it. again: a command that may have
	// done it was stopped.
	Single(ctx context.Context, entry int, again bool) (blocked bool)

	// Fail decides entries by an error.
	Fail(ctx context.Context, entries []int, err error)
}

// Run decides the entries, which are in the order of [Order], or returns an error that
// means unknown for all. After a stop it sends up to parallel commands at a time.
func Run(ctx context.Context, step Step, entries []int, limit Limit, parallel int) error {
	s := splitter{Step: step, limit: limit}
	err := step.Send(ctx, entries, limit.Of(len(entries)))
	if !Stopped(err) {
		return err
	}
	single, rest, known := step.Progress(ctx, err, entries)
	if !known {
		s.split(ctx, entries, parallel)
		return nil
	}
	blocked := false
	learn := func() {
		if !blocked && waited(err) {
			limit.TooShort(len(entries))
		}
	}
	if len(single) == 0 {
		learn()
	}
	var again error
	commands := []func(){}
	if len(rest) > 0 {
		commands = append(commands, func() { again = step.Send(ctx, rest, limit.Of(len(rest))) })
	}
	for n, i := range single {
		commands = append(commands, func() {
			if is := step.Single(ctx, i, false); n == 0 {
				blocked = is
			}
		})
	}
	InParallel(len(commands), parallel, func(i int) { commands[i]() })
	if len(single) > 0 {
		learn()
	}
	switch {
	case Stopped(again) && blocked: // some more are
		s.split(ctx, rest, Parts)
	case Stopped(again):
		s.slow = true
		s.split(ctx, rest, 1)
	case again != nil:
		step.Fail(ctx, rest, again)
	}
	return nil
}

type splitter struct {
	Step
	limit Limit
	slow  bool // nothing was blocked: what is stopped had too little time
}

// split goes on with smaller commands, a few at a time, down to single keys.
func (s splitter) split(ctx context.Context, entries []int, parallel int) {
	size := max(1, len(entries)/Parts)
	InParallel((len(entries)+size-1)/size, parallel, func(i int) {
		part := entries[i*size : min(len(entries), (i+1)*size)]
		if len(part) == 1 {
			s.Single(ctx, part[0], true)
			return
		}
		switch err := s.Resend(ctx, part, s.limit.Of(len(part))); {
		case Stopped(err):
			if s.slow && waited(err) {
				s.limit.TooShort(len(part))
			}
			s.split(ctx, part, parallel)
		case err != nil:
			s.Fail(ctx, part, err)
		}
	})
}

// stop is the error of a command with several keys that one of them has stopped. Some keys
// may be done, on the primary.
type stop struct {
	error
	waited bool
}

func (s *stop) Unwrap() error { return s.error }

// Stop makes err a stop. waited: the command has waited for a document, or for the server,
// so where nothing is blocked its limit was too short.
func Stop(err error, waited bool) error { return &stop{err, waited} }

// Stopped reports whether err is a stop.
func Stopped(err error) bool {
	var s *stop
	return errors.As(err, &s)
}

// waited reports whether a stopped command has waited.
func waited(err error) bool {
	var s *stop
	return errors.As(err, &s) && s.waited
}

// Order lists the indexes of n keys in the order of the index on _id, in which
// commands reach the documents: Binary compares by length first. With one order
// for all, no two commands wait for each other.
func Order(n int, key func(int) string) []int {
	entries := make([]int, n)
	for i := range entries {
		entries[i] = i
	}
	slices.SortFunc(entries, func(x, y int) int { return order.ByLength(key(x), key(y)) })
	return entries
}

// InParallel runs do for 0 to n-1, a few at a time, and returns when all have.
func InParallel(n, atOnce int, do func(i int)) {
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
