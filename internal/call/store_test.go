package call

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rowlock/rowlock/driver"
)

// fakeStore answers what the test says; other calls panic.
type fakeStore struct {
	driver.Store
	release func(ctx context.Context, holds []driver.Hold) ([]driver.Result, error)
	inspect func(ctx context.Context, keys []string) ([]driver.Info, error)
}

func (f *fakeStore) Release(ctx context.Context, holds []driver.Hold) ([]driver.Result, error) {
	return f.release(ctx, holds)
}

func (f *fakeStore) Inspect(ctx context.Context, keys []string) ([]driver.Info, error) {
	return f.inspect(ctx, keys)
}

// The methods that New takes values of.
func (f *fakeStore) Acquire(context.Context, []driver.Request) ([]driver.Result, error) {
	panic("not expected")
}

func (f *fakeStore) Renew(context.Context, []driver.Hold) ([]driver.Result, error) {
	panic("not expected")
}

func newStore(t *testing.T, f *fakeStore) *Store {
	start := time.Now()
	s := New(f, driver.Limits{}, func() time.Duration { return time.Since(start) })
	t.Cleanup(s.End)
	return s
}

var errServer = errors.New("the server is gone")

// TestAnswers: each entry of a call has its answer, whatever the Store gives.
func TestAnswers(t *testing.T) {
	holds := []driver.Hold{{Key: "a"}, {Key: "b"}}
	for _, c := range []struct {
		name    string
		results []driver.Result
		err     error
		want    [2]driver.Status
		wantErr bool
	}{
		{"answers", []driver.Result{{Status: driver.Released}, {Status: driver.Taken}}, nil, [2]driver.Status{driver.Released, driver.Taken}, false},
		{"an error of the call", nil, errServer, [2]driver.Status{}, true},
		{"an error beside answers", []driver.Result{{Status: driver.Released}, {}}, errServer, [2]driver.Status{}, true},
		{"too few answers", []driver.Result{{Status: driver.Released}}, nil, [2]driver.Status{}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newStore(t, &fakeStore{release: func(context.Context, []driver.Hold) ([]driver.Result, error) { return c.results, c.err }})
			a := s.Release(holds, time.Second)
			if len(a.Results) != 2 || (a.Err != nil) != c.wantErr || c.err != nil && !errors.Is(a.Err, c.err) {
				t.Fatalf("%+v", a)
			}
			for i, r := range a.Results {
				if r.Status != c.want[i] || r.Err != a.Err {
					t.Errorf("answer %d: %+v, want %v", i, r, c.want[i])
				}
			}
			if s.Statements() != 1 {
				t.Errorf("%d statements", s.Statements())
			}
		})
	}
}

// TestPatience: a statement has a deadline, and ends with the client, not with a caller.
func TestPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hang := func(ctx context.Context, holds []driver.Hold) ([]driver.Result, error) {
			if d, ok := ctx.Deadline(); !ok || time.Until(d) != time.Minute {
				t.Errorf("the deadline is %v, %v", d, ok)
			}
			child, cancel := context.WithCancel(ctx)
			defer cancel()
			<-child.Done()
			return nil, ctx.Err()
		}
		s := newStore(t, &fakeStore{release: hang})
		a := s.Release([]driver.Hold{{}}, time.Minute)
		if a.Got-a.Sent != time.Minute || !errors.Is(a.Err, context.DeadlineExceeded) {
			t.Errorf("ended after %v: %v", a.Got-a.Sent, a.Err)
		}
		time.AfterFunc(time.Second, s.End)
		a = s.Release([]driver.Hold{{}}, time.Minute)
		if a.Got-a.Sent != time.Second || !errors.Is(a.Err, context.Canceled) {
			t.Errorf("ended %v after the client's end: %v", a.Got-a.Sent-time.Second, a.Err)
		}
	})
}

// TestErrWithoutDone: a Store that never asks for Done learns of the deadline too.
func TestErrWithoutDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t, &fakeStore{})
		ctx := s.within(time.Second)
		if ctx.Err() != nil {
			t.Error(ctx.Err())
		}
		time.Sleep(time.Second)
		if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
			t.Errorf("after its deadline: %v", ctx.Err())
		}
	})
}

// queuer begins twice, and is granted the second time.
type queuer struct{}

func (queuer) AcquireWait(_ context.Context, _ driver.Request, begin func()) (driver.Result, error) {
	begin()
	time.Sleep(time.Hour)
	begin()
	time.Sleep(time.Second)
	return driver.Result{Status: driver.Granted}, nil
}

// TestAcquireWait: trust counts from the round that was granted.
func TestAcquireWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newStore(t, &fakeStore{}).AcquireWait(t.Context(), queuer{}, driver.Request{})
		if a.Got-a.Sent != time.Second || a.Results[0].Status != driver.Granted {
			t.Errorf("%+v", a)
		}
	})
}
