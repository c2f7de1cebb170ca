package call

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rowlock/rowlock/driver"
)

type callersKey struct{}

// TestAsk: a caller's context bounds its wait, never the statement.
func TestAsk(t *testing.T) {
	silent := &driver.Error{Silent: true, Err: errors.New("no byte")}
	for _, c := range []struct {
		name    string
		answers []error // each after a second
		leave   time.Duration
		stop    time.Duration
		took    time.Duration
		want    error
		calls   int
	}{
		{"answered", []error{nil}, 0, 0, time.Second, nil, 1},
		{"failed", []error{errServer}, 0, 0, time.Second, errServer, 1},
		{"silent, then answered", []error{silent, silent, nil}, 0, 0, 3 * time.Second, nil, 3},
		{"the caller leaves", []error{nil}, time.Second / 2, 0, time.Second / 2, context.Canceled, 1},
		{"silent, and nobody waits", []error{silent}, time.Second / 2, 0, time.Second / 2, context.Canceled, 1},
		{"silent, and the client closes", []error{silent}, 0, time.Second / 2, time.Second, silent, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStore(t, &fakeStore{})
				ctx, cancel := context.WithCancel(context.WithValue(t.Context(), callersKey{}, true))
				stop, end := context.WithCancel(t.Context())
				defer cancel()
				defer end()
				if c.leave > 0 {
					time.AfterFunc(c.leave, cancel)
				}
				if c.stop > 0 {
					time.AfterFunc(c.stop, end)
				}
				start, calls := time.Now(), 0
				_, err := Ask(s, ctx, stop, time.Minute, "admin", func(own context.Context) (int, error) {
					if own.Value(callersKey{}) != nil {
						t.Error("a value of the caller's context reached the statement")
					}
					calls++
					time.Sleep(time.Second)
					return calls, errors.Join(own.Err(), c.answers[calls-1])
				})
				if took := time.Since(start); took != c.took || !errors.Is(err, c.want) || c.want == nil && err != nil {
					t.Errorf("after %v: %v, want after %v: %v", took, err, c.took, c.want)
				}
				<-s.Work.Close()
				if calls != c.calls {
					t.Errorf("%d statements, want %d", calls, c.calls)
				}
				if _, err := Ask(s, ctx, stop, time.Minute, "admin", func(context.Context) (int, error) { panic("called") }); err != driver.ErrClosed {
					t.Errorf("after Close: %v", err)
				}
			})
		})
	}
}

// TestAskInspect: an answer for each key.
func TestAskInspect(t *testing.T) {
	answers := []driver.Info{{Key: "k", Held: true}}
	s := newStore(t, &fakeStore{inspect: func(context.Context, []string) ([]driver.Info, error) { return answers, nil }})
	if infos, err := s.AskInspect(t.Context(), t.Context(), []string{"k"}, time.Second); err != nil || !infos[0].Held {
		t.Errorf("%+v, %v", infos, err)
	}
	answers = nil
	if infos, err := s.AskInspect(t.Context(), t.Context(), []string{"k"}, time.Second); err == nil {
		t.Errorf("no answer: %+v, %v", infos, err)
	}
}
