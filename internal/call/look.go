package call

import (
	"context"
	"fmt"
	"time"

	"github.com/rowlock/rowlock/driver"
)

// Look looks at keys with lines, at most Limits.Batch of them. sent and got are the clock before and after.
func (s *Store) Look(by driver.Liner, entries []driver.Entry, patience time.Duration) (views []driver.View, sent, got time.Duration, err error) {
	return asked(s, "look", "looks", patience, len(entries), len(entries), func(ctx context.Context) ([]driver.View, error) { return by.Look(ctx, entries) })
}

// asked makes one call about keys, which has n answers: what for.
func asked[T any](s *Store, op, what string, patience time.Duration, keys, n int, do func(context.Context) ([]T, error)) (answers []T, sent, got time.Duration, err error) {
	s.Work.Begin()
	defer s.Work.End()
	s.calls.Add(1)
	ctx := s.within(patience)
	defer ctx.end()
	sent = s.Now()
	answers, err = do(ctx)
	got = s.Now()
	s.told(op, keys, sent, err)
	if err == nil && len(answers) != n {
		return nil, sent, got, fmt.Errorf("the store gave %d answers for %d %s", len(answers), n, what)
	}
	return answers, sent, got, err
}
