package mongolock

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/internal/testserver"
	"github.com/rowlock/rowlock/mongo/internal/document"
)

// TestP8_AcquireInsideATransaction: a transaction that reads, and then acquires the lease that it guards, can never succeed. The
// driver runs it once more, not for two minutes, and the error says what to do.
func TestP8_AcquireInsideATransaction(t *testing.T) {
	t.Parallel()
	s := shared(t)
	c := locker(t, s, rowlock.Options{})
	must(t, add(t.Context(), s, "read"))
	runs := 0
	for verb, guard := range map[string]func(ctx context.Context, leases ...*rowlock.Lease) error{
		"Guard": func(ctx context.Context, leases ...*rowlock.Lease) error { return s.Guard(ctx, leases[0]) },
		"Guard of a group": func(ctx context.Context, leases ...*rowlock.Lease) error {
			return s.Guard(ctx, leases[0], leases[1:]...)
		},
		"MarkRun": func(ctx context.Context, leases ...*rowlock.Lease) error {
			runs++
			return s.MarkRun(ctx, leases[0], fmt.Sprint(runs))
		},
	} {
		sess, err := s.db.Client().StartSession()
		must(t, err)
		defer sess.EndSession(context.Background())
		limited, cancel := context.WithTimeout(t.Context(), testserver.Patience(t))
		defer cancel()
		inside := func(acquireFirst bool) (calls int, err error) {
			_, err = sess.WithTransaction(limited, func(ctx context.Context) (any, error) {
				calls++
				if calls > 3 {
					return nil, fmt.Errorf("P8: %s: called again and again", verb)
				}
				if !acquireFirst {
					must(t, data(s).FindOne(ctx, document.Op("_id", "read")).Err())
				}
				group, err := c.AcquireAll(ctx, rowlock.Keys("a", "b"), rowlock.Guarded())
				must(t, err)
				defer func() { must(t, group.Release(context.Background())) }()
				return nil, guard(ctx, group.Leases()...)
			}, ownTransactions)
			return calls, err
		}
		for range 2 { // the first success makes the session as good as new
			calls, err := inside(false)
			if calls != 2 || !errors.Is(err, rowlock.ErrConflict) || transient(err) || !strings.Contains(fmt.Sprint(err), "acquire the lease before the transaction begins") {
				t.Errorf("P8: %s: %v after %d calls, want a conflict that is not to be repeated at the second", verb, err, calls)
			}
			if calls, err := inside(true); err != nil || calls != 1 {
				t.Errorf("P8: %s after the acquire: %v after %d calls", verb, err, calls)
			}
		}
	}
}

// TestTooOldIsBounded: sessions that are never guarded again are forgotten.
func TestTooOldIsBounded(t *testing.T) {
	var o tooOld
	sessions := make([]mongo.Session, 3*mostTooOld)
	for i := range sessions {
		if err := o.met(&sessions[i]); !transient(err) {
			t.Fatalf("%d: %v", i, err)
		}
	}
	if len(o.sessions) > mostTooOld {
		t.Errorf("%d sessions are known", len(o.sessions))
	}
	last := &sessions[len(sessions)-1]
	if err := o.met(last); transient(err) {
		t.Error("the second time is as the first")
	}
	if o.over(last); !transient(o.met(last)) {
		t.Error("it is not forgotten")
	}
}
