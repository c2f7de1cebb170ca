package mongolock

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/testserver"
	"github.com/rowlock/rowlock/mongo/internal/command"
	"github.com/rowlock/rowlock/mongo/internal/document"
)

// An attempt that arrives after its undo takes nothing, with retryWrites on or off.
func TestP6_LateAttemptAfterItsUndo(t *testing.T) {
	t.Parallel()
	for name, retry := range map[string]bool{"retryWrites": true, "no retryWrites": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, s, beside := behindProxy(t, options.Client().SetRetryWrites(retry))
			p.keep("findAndModify")
			q := request("k")
			_, err := s.Acquire(p.untilKept(1), []driver.Request{q})
			if !errors.Is(err, context.DeadlineExceeded) || driver.IsNotApplied(err) || driver.IsLasting(err) {
				t.Errorf("error %v, want a passing one that matches DeadlineExceeded and proves nothing", err)
			}
			p.waitKept(1)
			p.pass()
			if r := release(t, s, undoOf(q)); r.Status != driver.Removed || !r.Final {
				t.Errorf("undo: %+v, want removed and final", r)
			}
			p.letGo()
			if !p.answered("TransactionTooOld") {
				t.Error("the server did not refuse the late attempt")
			}
			if i := inspect(t, beside, "k"); i.Held {
				t.Errorf("P6: the late attempt left a hold: %+v", i)
			}
			if n := s.sessions.CountUnanswered(); n != 0 {
				t.Errorf("%d sessions are still kept", n)
			}
			granted(t, s, request("k")) // the session goes on
		})
	}
}

// The same for the upserts of a batch: one session for all.
func TestP6_LateBatchAfterItsUndos(t *testing.T) {
	t.Parallel()
	p, s, beside := behindProxy(t)
	p.keep("upsert")
	reqs := requests("k", 5)
	results, err := s.Acquire(p.untilKept(1), reqs)
	if err != nil {
		t.Fatal(err)
	}
	holds := make([]driver.Hold, len(reqs))
	for i, r := range results {
		holds[i] = undoOf(reqs[i])
		if r.Status != driver.Unknown || driver.IsNotApplied(r.Err) {
			t.Errorf("%+v, want unknown", r)
		}
	}
	p.waitKept(1)
	p.pass()
	results, err = s.Release(t.Context(), holds)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range results {
		if r.Status != driver.Removed || !r.Final {
			t.Errorf("undo: %+v, want removed and final", r)
		}
	}
	p.letGo()
	if !p.answered("TransactionTooOld") {
		t.Error("the server did not refuse the late batch")
	}
	for _, q := range reqs {
		if i := inspect(t, beside, q.Key); i.Held {
			t.Errorf("P6: the late batch left a hold: %+v", i)
		}
	}
	if n := s.sessions.CountUnanswered(); n != 0 {
		t.Errorf("%d sessions are still kept", n)
	}
}

// Of an updateMany nothing proves that it will not arrive later.
func TestUndoOfABatchIsNotFinal(t *testing.T) {
	t.Parallel()
	p, s, beside := behindProxy(t)
	reqs := requests("k", 3)
	freed(t, s, reqs)
	p.keep("indexOfArray")
	reqs = requests("k", 3)
	_, err := s.Acquire(p.untilKept(1), reqs)
	if err == nil || driver.IsNotApplied(err) {
		t.Errorf("error %v, want unknown", err)
	}
	p.waitKept(1)
	p.pass()
	if r := release(t, s, undoOf(reqs[0])); r.Final {
		t.Errorf("undo: %+v, want not final", r)
	}
	p.letGo()
	for i := 0; !inspect(t, beside, "k0").Held; i++ {
		if i == 1000 {
			t.Fatal("the late batch never arrived")
		}
		time.Sleep(10 * time.Millisecond)
	}
	if r := release(t, s, undoOf(reqs[0])); r.Status != driver.Released || !r.Final {
		t.Errorf("undo again: %+v, want released and final", r)
	}
}

// A connection that is cut before the reply: the command goes out again with its
// number, and the server gives the stored answer.
func TestP7_LostReply(t *testing.T) {
	t.Parallel()
	p, s, beside := behindProxy(t)
	before := writes(t, beside, s.leases)
	p.lose("findAndModify")
	q := request("k")
	q.Guarded = true
	h := granted(t, s, q)
	if i := inspect(t, beside, "k"); !i.Held || i.Token != h.Token || i.Pinned {
		t.Errorf("%+v, want held with token %d", i, h.Token)
	}
	if n := writes(t, beside, s.leases) - before; n != 2 {
		t.Errorf("%d writes, want 2: the hold, and what overtakes a second sending", n)
	}
	for _, command := range []string{"currentDate", "acquiredAt"} { // release; find
		p.lose(command)
		results, err := s.Release(t.Context(), []driver.Hold{h})
		if command == "currentDate" {
			if err == nil || driver.IsLasting(err) || driver.IsNotApplied(err) {
				t.Errorf("release with a lost reply: %v, %v", results, err)
			}
		} else if err != nil || results[0].Status != driver.Released {
			t.Errorf("release again: %v, %v", results, err)
		}
	}
}

func TestUndoFindsWhatWasGranted(t *testing.T) {
	t.Parallel()
	p, s, beside := behindProxy(t)
	p.keep("findAndModify")
	q := request("k")
	q.Keep = time.Hour
	if _, err := s.Acquire(p.untilKept(1), []driver.Request{q}); err == nil {
		t.Fatal("no error")
	}
	p.waitKept(1)
	p.pass()
	p.letGo()
	for i := 0; !inspect(t, beside, "k").Held; i++ {
		if i == 1000 {
			t.Fatal("the attempt never arrived")
		}
		time.Sleep(10 * time.Millisecond)
	}
	if r := release(t, s, undoOf(q)); r.Status != driver.Released || !r.Final {
		t.Errorf("undo: %+v, want released and final", r)
	}
	if i := inspect(t, beside, "k"); i.Held {
		t.Errorf("MinHold outlived the undo of an attempt: %+v", i)
	}
	// An undo of which nobody knows the attempt.
	if r := release(t, s, undoOf(request("k"))); r.Status != driver.Removed || r.Final {
		t.Errorf("%+v, want removed, not final", r)
	}
	var b struct{ N int64 }
	if err := s.db.Collection(s.leases).FindOne(t.Context(), document.Op("_id", document.Barrier)).Decode(&b); err != nil || b.N != 1 {
		t.Errorf("barrier %+v (%v), want 1", b, err)
	}
}

// A majority that is late is waited for, with the time that the call has.
func TestWriteConcernErrors(t *testing.T) {
	srv := testserver.Start(t, testserver.Mongo) // a fail point is the server's
	s := open(t, database(t, srv.DSN(), options.Client().SetAppName("wce")), Options{})
	concern := func(code int, name string, labels ...string) []bson.E {
		e := []bson.E{{Key: "writeConcernError", Value: bson.D{{Key: "code", Value: code}, {Key: "codeName", Value: name}, {Key: "errmsg", Value: "test"}}}}
		if labels != nil {
			e = append(e, bson.E{Key: "errorLabels", Value: labels})
		}
		return e
	}
	for _, name := range []string{"findAndModify", "update"} {
		failCommand(t, s, "wce", name, concern(command.CodeMaxTimeMSExpired, "MaxTimeMSExpired")...)
		sent := s.Statements()
		reqs := requests(name, map[string]int{"findAndModify": 1, "update": 3}[name])
		results := mustAll(t, s, reqs, driver.Granted)
		if n := s.Statements() - sent; n < 2 {
			t.Errorf("%s: %d commands, want a repeat", name, n)
		}
		failCommand(t, s, "wce", "update", concern(command.CodeMaxTimeMSExpired, "MaxTimeMSExpired")...)
		h := holdOf(reqs[0], results[0])
		if st := renew(t, s, h); st != driver.Alive {
			t.Errorf("renew: %v", st)
		}
		failCommand(t, s, "wce", "findAndModify", concern(command.CodeMaxTimeMSExpired, "MaxTimeMSExpired")...)
		if r := release(t, s, h); r.Status != driver.Released {
			t.Errorf("release: %v", r.Status)
		}
	}
	// The repeat of a release finds nothing; that the first sending did counts, even
	// if the document could not tell any more.
	h := granted(t, s, request("r"))
	failCommand(t, s, "wce", "findAndModify", concern(command.CodeMaxTimeMSExpired, "MaxTimeMSExpired")...)
	if r := release(t, s, driver.Hold{Key: h.Key, ID: h.ID}); r.Status != driver.Released {
		t.Errorf("release: %v", r.Status)
	}
	// So does the reaper.
	age(t, s, "r", 48*time.Hour)
	failCommand(t, s, "wce", "delete", concern(command.CodeMaxTimeMSExpired, "MaxTimeMSExpired")...)
	if n, err := s.Reap(t.Context(), 24*time.Hour); err != nil || n != 1 {
		t.Errorf("reaped %d documents, want 1: %v", n, err)
	}
	// One that says so about the primary is unknown, unless the repeat is answered.
	failCommand(t, s, "wce", "findAndModify", concern(100, "UnsatisfiableWriteConcern")...)
	q := request("u")
	_, err := s.Acquire(t.Context(), []driver.Request{q})
	if err == nil || driver.IsNotApplied(err) || driver.IsLasting(err) {
		t.Errorf("error %v, want unknown and passing", err)
	}
	if r := release(t, s, undoOf(q)); r.Status != driver.Released || !r.Final {
		t.Errorf("undo: %+v", r)
	}
	// Errors of the command.
	for _, c := range []struct {
		code                int
		lasting, notApplied bool
		labels              []string
		answered            bool
		want                error
	}{
		{code: command.CodeNotWritablePrimary, answered: true, labels: []string{"RetryableWriteError"}},
		{code: 11600, answered: true, labels: []string{"RetryableWriteError"}},
		{code: command.CodeUnauthorized, lasting: true, notApplied: true},
		{code: command.CodeIllegalOperation, lasting: true, notApplied: true, want: driver.ErrNotSupported},
		{code: command.CodeWriteConflict, answered: true},
		{code: 8},
		{code: 8000, notApplied: true}, // Atlas: a quota, a rate; in the handshake it is a wrong password
		{code: 73, lasting: true, notApplied: true, want: driver.ErrSchema},
		{code: 291, lasting: true, notApplied: true, want: driver.ErrNotSupported},
		{code: 323, lasting: true, notApplied: true, want: driver.ErrNotSupported},
		{code: 14031, notApplied: true}, // no space on the disk
		{code: 146, notApplied: true},   // too much memory
		{code: 54321, notApplied: true}, // of a proxy, which nobody knows
	} {
		how := []bson.E{{Key: "errorCode", Value: c.code}}
		if c.labels != nil {
			how = append(how, bson.E{Key: "errorLabels", Value: c.labels})
		}
		failCommand(t, s, "wce", "findAndModify", how...)
		_, err := s.Acquire(t.Context(), []driver.Request{request("e")})
		if (err == nil) != c.answered || driver.IsLasting(err) != c.lasting || driver.IsNotApplied(err) != c.notApplied ||
			c.want != nil && !errors.Is(err, c.want) {
			t.Errorf("code %d: %v (lasting %v, not applied %v)", c.code, err, driver.IsLasting(err), driver.IsNotApplied(err))
		}
		if c.answered {
			if _, err := s.ForceRelease(t.Context(), "e"); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestFrozenPrimary(t *testing.T) {
	testserver.Long(t)
	srv := testserver.Start(t, testserver.Mongo)
	s := open(t, database(t, srv.DSN()), Options{})
	q := request("k")
	h := granted(t, s, q)
	srv.Pause()
	other := request("other")
	for name, call := range map[string]func(context.Context) error{
		"acquire": func(ctx context.Context) error { _, err := s.Acquire(ctx, []driver.Request{other}); return err },
		"batch":   func(ctx context.Context) error { _, err := s.Acquire(ctx, requests("b", 3)); return err },
		"renew":   func(ctx context.Context) error { _, err := s.Renew(ctx, []driver.Hold{h}); return err },
		"release": func(ctx context.Context) error {
			_, err := s.Release(ctx, []driver.Hold{{Key: "x", ID: newID()}})
			return err
		},
		"inspect": func(ctx context.Context) error { _, err := s.Inspect(ctx, []string{"k"}); return err },
		"list":    func(ctx context.Context) error { _, err := s.List(ctx, "", "", 1); return err },
		"undo": func(ctx context.Context) error {
			_, err := s.Release(ctx, []driver.Hold{undoOf(request("x"))})
			return err
		},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		start := time.Now()
		err := call(ctx)
		cancel()
		if d := time.Since(start); d > 15*time.Second { // the driver's own patience is 20 to 30 s
			t.Errorf("%s returned %v after its context began, 200ms were allowed", name, d)
		}
		if !errors.Is(err, context.DeadlineExceeded) || driver.IsLasting(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	srv.Resume()
	if st := renew(t, s, h); st != driver.Alive {
		t.Errorf("renew afterwards: %v", st)
	}
	if r := release(t, s, undoOf(other)); !r.Final && r.Status != driver.Removed {
		t.Errorf("undo afterwards: %+v", r)
	}
	srv.Kill()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := s.Renew(ctx, []driver.Hold{h}); err == nil || driver.IsLasting(err) {
		t.Errorf("renew on a server that is gone: %v", err)
	}
	srv.Restart()
	if st := renew(t, s, h); st != driver.Alive {
		t.Errorf("renew after the restart: %v", st)
	}
	if _, err := s.Renew(t.Context(), []driver.Hold{h}); err != nil {
		t.Error(err)
	}
}

// TestP6_BatchIsSentOnce: an updateMany has no number, so it is not sent again where its connection broke: the undo of what
// it takes knows of one that may still arrive.
func TestP6_BatchIsSentOnce(t *testing.T) {
	t.Parallel()
	var batches atomic.Int32
	p, s, _ := behindProxy(t, options.Client().SetMonitor(&event.CommandMonitor{Started: func(_ context.Context, e *event.CommandStartedEvent) {
		if strings.Contains(e.Command.String(), "indexOfArray") {
			batches.Add(1)
		}
	}}))
	reqs := requests("k", 3)
	freed(t, s, reqs)
	batches.Store(0)
	p.lose("indexOfArray")
	if _, err := s.Acquire(patient(t), requests("k", 3)); driver.IsNotApplied(err) {
		t.Errorf("a batch whose reply was lost: %v, want no error or an unknown outcome", err)
	}
	if n := batches.Load(); n != 1 {
		t.Errorf("P6: a batch without a number was sent %d times", n)
	}
}
