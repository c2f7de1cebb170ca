package enginetest

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/memory"
)

// TestListAndForceRelease: the client does what its store can.
func TestListAndForceRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		f := newFaultStore()
		c := newClient(t, f)
		for _, key := range []string{"b", "a/2", "a/1"} {
			acquire(t, c, key)
		}
		infos, err := c.List(ctx, "a/", "", 10)
		if err != nil || len(infos) != 2 || infos[0].Key != "a/1" || !infos[1].Held {
			t.Errorf("List: %+v, %v", infos, err)
		}
		if infos, err = c.List(ctx, "a/", "a/1", 10); err != nil || len(infos) != 1 {
			t.Errorf("the next page: %+v, %v", infos, err)
		}
		info, err := c.ForceRelease(ctx, "b")
		if err != nil || !info.Held || info.Key != "b" {
			t.Errorf("ForceRelease: %+v, %v", info, err)
		}
		if info, err = c.Inspect(ctx, "b"); err != nil || info.Held {
			t.Errorf("after it: %+v, %v", info, err)
		}
	})
}

// TestListAndForceReleaseRefused: bad input, a store that cannot, a client that is closed.
func TestListAndForceReleaseRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		poor := newClient(t, bareStore{memory.New()})
		closed := newClient(t, memory.New())
		if err := closed.Close(ctx); err != nil {
			t.Fatal(err)
		}
		able := newClient(t, memory.New())
		ended, end := context.WithCancel(ctx)
		end()
		defer cancel()
		for _, tc := range []struct {
			name string
			c    *rowlock.Client
			ctx  context.Context
			key  string
			want error
		}{
			{"no ability", poor, ctx, "k", rowlock.ErrNotSupported},
			{"closed", closed, ctx, "k", rowlock.ErrClosed},
			{"nil client", nil, ctx, "k", rowlock.ErrInvalid},
			{"nil context", able, nil, "k", rowlock.ErrInvalid},
			{"context ended", able, ended, "k", context.Canceled},
			{"empty key", able, ctx, "", rowlock.ErrInvalid},
		} {
			if _, err := tc.c.ForceRelease(tc.ctx, tc.key); !errors.Is(err, tc.want) {
				t.Errorf("%s: ForceRelease gives %v", tc.name, err)
			}
			if tc.key == "" {
				continue
			}
			if _, err := tc.c.List(tc.ctx, "", "", 1); !errors.Is(err, tc.want) {
				t.Errorf("%s: List gives %v", tc.name, err)
			}
		}
		if _, err := able.List(ctx, "", "", 0); !errors.Is(err, rowlock.ErrInvalid) {
			t.Errorf("limit 0: %v", err)
		}
	})
}
