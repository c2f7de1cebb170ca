package mysqllock

import (
	"context"
	"encoding/hex"
	"errors"
	"testing"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/mysql/internal/session"
)

// TestForUpdateOwnerHasReleased: while a session has the row locked that was granted nothing yet, the key is held, and nobody
// is named as its owner: the lease row tells of the hold before, which was released. After the grant it is the new one.
func TestForUpdateOwnerHasReleased(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, l *lab) {
		l.store()
		for name, step := range map[string]func(t *testing.T, ctx context.Context, x *session.Attempt){
			"locked": func(t *testing.T, ctx context.Context, x *session.Attempt) {
				r, err := x.Lock(ctx)
				if must(t, err); r.Status != driver.Unknown {
					t.Fatalf("%+v", r)
				}
			},
			"a stranger's": func(t *testing.T, ctx context.Context, x *session.Attempt) {
				tx, err := l.db.Begin()
				must(t, err)
				t.Cleanup(func() { _ = tx.Rollback() })
				_, err = tx.Exec("SELECT name FROM rowlock_session_row WHERE name=x'" + hex.EncodeToString([]byte(t.Name())) + "' FOR UPDATE")
				must(t, err)
			},
		} {
			t.Run(name, func(t *testing.T) {
				key := t.Name()
				first, looks := l.program(t, rowlock.Options{Owner: "first"}), l.program(t, rowlock.Options{Owner: "looks"})
				lease := first.lock(t, key)
				l.isOwnedBy(t, looks, key, "first")
				must(t, lease.Release(patient(t)))
				ctx := patient(t)
				q := request(key, time.Minute)
				q.Owner = "second"
				x := first.strategy.(*session.ForUpdate).Attempt(q)
				own, err := x.Begin(ctx)
				must(t, err)
				defer func() { own.Broken = true; own.Put() }()
				step(t, ctx, x)
				l.isOwnedBy(t, looks, key, "")
				if name != "locked" {
					return
				}
				r, err := x.Write(ctx)
				if must(t, err); r.Status != driver.Unknown {
					t.Fatalf("%+v", r)
				}
				if mine, err := x.Confirm(ctx); err != nil || !mine {
					t.Fatal(mine, err)
				}
				l.isOwnedBy(t, looks, key, "second")
			})
		}
	})
}

// isOwnedBy asks p in each way whose the key is that is held.
func (l *lab) isOwnedBy(t *testing.T, p program, key, owner string) {
	t.Helper()
	ctx := patient(t)
	is := func(what string, info rowlock.Info, err error) {
		t.Helper()
		must(t, err)
		if !info.Held || info.Owner != owner || (info.Left > 0) != (owner != "") || info.Since.IsZero() != (owner == "") {
			t.Errorf("%s: held %v by %q since %v for %v, want it held by %q", what, info.Held, info.Owner, info.Since, info.Left, owner)
		}
	}
	info, err := p.Inspect(ctx, key)
	is("Inspect", info, err)
	infos, err := p.Store.List(ctx, key, "", 1)
	if must(t, err); len(infos) != 1 {
		t.Fatalf("List: %v", infos)
	}
	is("List", infos[0], nil)
	for leader, err := range p.Observe(ctx, key) {
		if must(t, err); !leader.Held || leader.Owner != owner {
			t.Errorf("Observe: held %v by %q, want it held by %q", leader.Held, leader.Owner, owner)
		}
		break
	}
	for what, mode := range map[string][]rowlock.Option{"TryAcquire": nil, "TryAcquire Shared": {rowlock.Shared()}, "TryAcquire Slots": {rowlock.Slots(2)}} {
		var held *rowlock.HeldError
		if _, err := p.TryAcquire(ctx, key, mode...); !errors.As(err, &held) {
			t.Errorf("%s: %v", what, err)
		} else if held.Owner != owner || (held.Left > 0) != (owner != "") {
			t.Errorf("%s: held by %q for %v, want %q", what, held.Owner, held.Left, owner)
		}
	}
}
