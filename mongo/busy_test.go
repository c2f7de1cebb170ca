package mongolock

import (
	"errors"
	"math"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/testserver"
	"github.com/rowlock/rowlock/mongo/internal/command"
	"github.com/rowlock/rowlock/mongo/internal/document"
)

// busyServer is a server of the test's own whose commands can be made to end by their
// time limit, as they do where other work keeps it busy.
func busyServer(t *testing.T) (s *Store, late func(mode any, commands ...string)) {
	t.Helper()
	srv := testserver.Start(t, testserver.Mongo, "--setParameter", "enableTestCommands=1")
	s = open(t, database(t, srv.DSN()), Options{})
	must(t, s.Check(t.Context()))
	late = func(mode any, commands ...string) {
		t.Helper()
		names := make(bson.A, len(commands))
		for i, c := range commands {
			names[i] = c
		}
		must(t, s.db.Client().Database("admin").RunCommand(t.Context(), bson.D{
			{Key: "configureFailPoint", Value: "failCommand"},
			{Key: "mode", Value: mode},
			{Key: "data", Value: bson.D{{Key: "failCommands", Value: names}, {Key: "errorCode", Value: command.CodeMaxTimeMSExpired}}},
		}).Err())
	}
	return s, late
}

func times(n int) bson.D { return document.Op("times", n) }

// A time-out proves nothing about other holders: a free key is granted by the next try,
// or the error says that the server did not answer in time.
func TestATimeOutIsNoHolder(t *testing.T) {
	t.Parallel()
	s, late := busyServer(t)
	c := locker(t, s, rowlock.Options{})
	notHeld := func(what string, err error) {
		t.Helper()
		if err == nil || errors.Is(err, rowlock.ErrHeld) || driver.IsLasting(err) || !driver.IsNotApplied(err) {
			t.Errorf("%s on a server without time: %v, want a passing error that says that nothing was applied and does not match ErrHeld", what, err)
		}
	}

	late(times(1), "findAndModify")
	if _, err := c.TryAcquire(t.Context(), "once"); err != nil {
		t.Errorf("TryAcquire of a key that nobody ever held, after one time-out: %v", err)
	}
	late("alwaysOn", "findAndModify")
	_, err := c.TryAcquire(t.Context(), "never")
	notHeld("TryAcquire of a key that nobody ever held", err)
	late("off")
	lease, err := c.TryAcquire(t.Context(), "never")
	must(t, err)
	late("alwaysOn", "findAndModify")
	if _, err := c.TryAcquire(t.Context(), "never"); !errors.Is(err, rowlock.ErrHeld) {
		t.Errorf("TryAcquire of a key that is held: %v, want one that matches ErrHeld", err)
	}
	late("off")
	must(t, lease.Release(t.Context()))

	// A batch: over existing documents, and new ones.
	freed(t, s, requests("k", 4))
	for _, prefix := range []string{"k", "new"} {
		late("alwaysOn", "findAndModify", "update")
		reqs := requests(prefix, 4)
		results, err := s.Acquire(t.Context(), reqs)
		late("off")
		must(t, err)
		for i, r := range results {
			if r.Status != driver.Unknown {
				t.Errorf("%q of a batch on a server without time: %v, want unknown", reqs[i].Key, r.Status)
			} else if errors.Is(r.Err, rowlock.ErrHeld) || driver.IsLasting(r.Err) {
				t.Errorf("%q of a batch on a server without time: %v", reqs[i].Key, r.Err)
			}
		}
	}
	grantedAll(t, s, requests("k", 4))
}

// The same for a guarded key, whose fence is raised before the grant: only an open
// transaction pins it.
func TestATimeOutIsNoGuard(t *testing.T) {
	t.Parallel()
	s, late := busyServer(t)
	q := request("k")
	q.Guarded = true
	release(t, s, granted(t, s, q))
	late(times(1), "update")
	h := granted(t, s, request("k"))
	release(t, s, h)
	late("alwaysOn", "update")
	results, err := s.Acquire(t.Context(), []driver.Request{request("k")})
	late("off")
	if err == nil {
		t.Errorf("a fence that could not be raised for want of time: %v, want an error", results[0].Status)
	}
}

func TestForceReleaseOnABusyServer(t *testing.T) {
	t.Parallel()
	s, late := busyServer(t)
	granted(t, s, request("k"))
	late(times(2), "findAndModify")
	if i, err := s.ForceRelease(t.Context(), "k"); err != nil || !i.Held {
		t.Errorf("%+v, %v", i, err)
	}
	if i := inspect(t, s, "k"); i.Held {
		t.Errorf("still held: %+v", i)
	}
}

// Nothing blames a transaction that nobody has seen.
func TestATimeOutBlamesNobody(t *testing.T) {
	t.Parallel()
	s, late := busyServer(t)
	q := request("guarded")
	q.Guarded = true
	holds := []driver.Hold{granted(t, s, request("k")), granted(t, s, q)}
	var info driver.Info
	for _, step := range []struct {
		name    string
		late    []string
		applied bool // in part
		call    func() error
	}{
		{"renew", []string{"update", "findAndModify"}, false, func() error { return answered(s.Renew(t.Context(), holds[:1])) }},
		{"release", []string{"update", "findAndModify"}, false, func() error { return answered(s.Release(t.Context(), holds[:1])) }},
		{"force", []string{"findAndModify"}, false, func() (err error) { info, err = s.ForceRelease(t.Context(), "k"); return err }},
		{"force a guarded key", []string{"update"}, true, func() (err error) { info, err = s.ForceRelease(t.Context(), "guarded"); return err }},
	} {
		late("alwaysOn", step.late...)
		err := step.call()
		late("off")
		if err == nil || strings.Contains(err.Error(), "transaction") || !strings.Contains(err.Error(), "did not finish it in time") {
			t.Errorf("%s on a server without time: %v, want that it did not finish in time, and no word of a transaction", step.name, err)
		}
		if driver.IsLasting(err) || driver.IsNotApplied(err) == step.applied {
			t.Errorf("%s on a server without time: lasting %v, not applied %v", step.name, driver.IsLasting(err), driver.IsNotApplied(err))
		}
		if info.Pinned {
			t.Errorf("%s on a server without time: pinned", step.name)
		}
	}
	if i := inspect(t, s, "guarded"); i.Held {
		t.Errorf("still held: %+v", i)
	}
	for _, key := range []string{"k", "guarded"} {
		_, err := s.ForceRelease(t.Context(), key)
		must(t, err)
	}
	must(t, s.db.Collection(s.fences).FindOne(t.Context(), bson.D{{Key: "_id", Value: document.KeyID("guarded")}, {Key: "token", Value: document.Op("$gt", holds[1].Stored)}}).Err())
}

// answered is the error of a call about one key.
func answered(results []driver.Result, err error) error {
	if err == nil && results[0].Status == driver.Unknown {
		return results[0].Err
	}
	return err
}

// A session that the server had no time to end is tried again: until then its transaction
// may keep the key from everybody else.
func TestSessionToEndOnABusyServer(t *testing.T) {
	t.Parallel()
	s, late := busyServer(t)
	guarded(t, locker(t, s, rowlock.Options{}), "k")
	end := func() bool {
		ended, err := s.fence.EndOlder(t.Context(), []string{"k"}, []int64{math.MaxInt64})
		must(t, err)
		return ended
	}
	late(times(1), "killSessions")
	if end() {
		t.Error("ended, though the server had no time")
	}
	if !s.fence.Endable(t.Context(), []string{"k"})["k"] {
		t.Error("a session that was not ended for want of time is not tried again")
	}
	if !end() || s.fence.Endable(t.Context(), []string{"k"})["k"] {
		t.Error("not ended by the next try, or tried once more")
	}
}
