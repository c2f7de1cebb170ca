package mongolock

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/split"
	"github.com/rowlock/rowlock/internal/testserver"
	"github.com/rowlock/rowlock/mongo/internal/command"
	"github.com/rowlock/rowlock/mongo/internal/document"
)

// A connection breaks while a command is on its way, and its repeat is answered.
// Wherever the answer did not write anything, the server does not remember its
// number: nothing but a later number of the same session stops the first sending.

// nothingLate lets what was kept arrive, and wants the server to refuse it.
func (p *proxy) nothingLate(t *testing.T, s, beside *Store, keys ...string) {
	t.Helper()
	p.letGo()
	if !p.answered("TransactionTooOld") {
		t.Error("the server did not refuse the late command")
	}
	for _, key := range keys {
		if i := inspect(t, beside, key); i.Held {
			t.Errorf("P6: the late command left a hold: %+v", i)
		}
	}
	if n := s.sessions.CountUnanswered(); n != 0 {
		t.Errorf("%d sessions are still kept", n)
	}
}

func TestP6_RefusedAfterALostConnection(t *testing.T) {
	t.Parallel()
	onAFreshProxy(t, func(p *proxy, s, beside *Store) bool {
		rival := granted(t, beside, request("k"))
		p.cut("findAndModify", nil)
		results, err := s.Acquire(t.Context(), []driver.Request{request("k")})
		if noTime(err) {
			return false
		}
		must(t, err)
		if r := results[0]; r.Status != driver.Held || r.Left <= 0 {
			t.Errorf("%+v, want held", r)
		}
		p.waitKept(1)
		release(t, beside, rival)
		p.nothingLate(t, s, beside, "k")
		sent := s.Statements()
		granted(t, s, request("k")) // the session goes on
		if n := s.Statements() - sent; n != 1 {
			t.Logf("the next acquire sent %d commands, want 1", n)
			return false // the server may not have had the time for it
		}
		return true
	})
}

// What came late may also take the key before the answer is sure.
func TestP6_RefusedThenTakenLate(t *testing.T) {
	t.Parallel()
	onAFreshProxy(t, func(p *proxy, s, beside *Store) bool {
		rival := granted(t, beside, request("k"))
		p.cut("findAndModify", nil)
		p.keep("barrier")
		q := request("k")
		answer := make(chan driver.Result, 1)
		go func() {
			results, err := s.Acquire(t.Context(), []driver.Request{q})
			if err != nil {
				results = []driver.Result{{Err: err}}
			}
			answer <- results[0]
		}()
		if !p.keeps(2, 10*time.Second) {
			p.letGo()
			r := <-answer
			t.Logf("no barrier was sent: %+v", r)
			return false
		}
		release(t, beside, rival)
		p.arrived()
		for i := 0; !inspect(t, beside, "k").Held; i++ {
			if i == 1000 {
				t.Fatal("the late command did nothing")
			}
			time.Sleep(10 * time.Millisecond)
		}
		p.pass()
		p.letGo()
		r := <-answer
		if noTime(r.Err) {
			return false
		}
		if r.Status != driver.Held {
			t.Errorf("%+v, want held", r)
		}
		if i := inspect(t, beside, "k"); i.Held {
			t.Errorf("P6: refused, and yet held: %+v", i)
		}
		return true
	})
}

// Where nothing can be overtaken the answer is unknown, and the engine undoes.
func TestP6_RefusedButNotSure(t *testing.T) {
	t.Parallel()
	p, s, beside := behindProxy(t)
	rival := granted(t, beside, request("k"))
	p.keep("barrier")
	p.cut("findAndModify", nil)
	q := request("k")
	_, err := s.Acquire(p.untilKept(2), []driver.Request{q})
	if !errors.Is(err, context.DeadlineExceeded) || driver.IsNotApplied(err) || driver.IsLasting(err) {
		t.Errorf("error %v, want a passing one that matches DeadlineExceeded and proves nothing", err)
	}
	p.waitKept(2)
	p.pass()
	if r := release(t, s, undoOf(q)); r.Status != driver.Removed || !r.Final {
		t.Errorf("undo: %+v, want removed and final", r)
	}
	release(t, beside, rival)
	p.nothingLate(t, s, beside, "k")
}

// A grant that finds its hold there already writes nothing either.
func TestP6_GrantedAgainAfterALostConnection(t *testing.T) {
	t.Parallel()
	onAFreshProxy(t, func(p *proxy, s, beside *Store) bool {
		q := request("k")
		h := granted(t, s, q)
		p.cut("findAndModify", nil)
		results, err := s.Acquire(t.Context(), []driver.Request{q})
		if noTime(err) {
			return false
		}
		must(t, err)
		if again := results[0]; again.Status != driver.Granted || again.Token != h.Token {
			t.Errorf("token %d, then %+v", h.Token, again)
		}
		p.waitKept(1)
		release(t, s, h)
		p.nothingLate(t, s, beside, "k")
		return true
	})
}

// The upserts of a batch: each that finds a rival's document writes nothing.
func TestP6_BatchAfterALostConnection(t *testing.T) {
	t.Parallel()
	onAFreshProxy(t, func(p *proxy, s, beside *Store) bool {
		rival := request("k1")
		rivals := make(chan driver.Result, 1)
		p.cut("upsert", func() {
			results, err := beside.Acquire(t.Context(), []driver.Request{rival})
			if err != nil {
				results = []driver.Result{{Err: err}}
			}
			rivals <- results[0]
		})
		reqs := requests("k", 3)
		results, err := s.Acquire(t.Context(), reqs)
		must(t, err)
		p.waitKept(1)
		theirs := <-rivals
		if noTime(theirs.Err) || slices.ContainsFunc(results, func(r driver.Result) bool { return noTime(r.Err) }) {
			return false
		}
		for i, want := range []driver.Status{driver.Granted, driver.Held, driver.Granted} {
			if results[i].Status != want {
				t.Errorf("%q: %v (%v), want %v", reqs[i].Key, results[i].Status, results[i].Err, want)
				continue
			}
			if want == driver.Granted {
				release(t, s, holdOf(reqs[i], results[i]))
			}
		}
		release(t, beside, holdOf(rival, theirs))
		p.nothingLate(t, s, beside, "k0", "k1", "k2")
		return true
	})
}

// undoLate undoes a batch of which the first command took something, and a second
// one is on its way, and lets that one arrive.
func (p *proxy) undoLate(t *testing.T, s, beside *Store, reqs []driver.Request, results []driver.Result) {
	t.Helper()
	var keys []string
	released := 0
	for i, r := range results {
		keys = append(keys, reqs[i].Key)
		if r.Status != driver.Unknown || driver.IsNotApplied(r.Err) {
			t.Errorf("%q: %+v, want unknown", reqs[i].Key, r)
		}
		back := release(t, s, undoOf(reqs[i]))
		if !back.Final && !command.NoServer(r.Err) { // such a one was never sent with a number
			t.Errorf("undo of %q: %+v, want a final one", reqs[i].Key, back)
		}
		if back.Status == driver.Released {
			released++
		}
	}
	if released == 0 {
		t.Error("the first command took nothing")
	}
	p.nothingLate(t, s, beside, keys...)
}

// onAFreshProxy runs a scenario until it reports that it came to what it is about. A
// machine under load may need more than one run: a server that does not answer in time
// leads to other commands.
func onAFreshProxy(t *testing.T, scenario func(p *proxy, s, beside *Store) bool) {
	t.Helper()
	for range 10 {
		if p, s, beside := behindProxy(t); scenario(p, s, beside) {
			return
		}
	}
	t.Error("10 runs did not come to what they are about")
}

// A batch that foreign transactions stopped twice sends its IDs again, in parts.
func TestP6_LatePartOfABatch(t *testing.T) {
	t.Parallel()
	onAFreshProxy(t, func(p *proxy, s, beside *Store) bool {
		reqs := requests("k", 4*split.Parts)
		freed(t, s, reqs)
		locks := beside.db.Collection(s.leases)
		unblock1, unblock2 := blockDocument(t, locks, document.KeyID("k0")), blockDocument(t, locks, document.KeyID("k20")) // k1 to k19 are between them
		p.keep("ordered")                                                                                                   // as the parts are: before them go all, then all but k0, and k0
		reqs = requests("k", len(reqs))
		results, err := s.Acquire(p.untilKept(split.Parts), reqs)
		late := p.keeps(1, 0)
		p.pass()
		unblock1()
		unblock2()
		if err != nil || !late {
			t.Logf("no part was sent: %v", err)
			p.letGo()
			return false
		}
		if r := results[0]; r.Status == driver.Unknown && driver.IsNotApplied(r.Err) {
			reqs, results = reqs[1:], results[1:] // else it was not found out that k0 is blocked, so it is in a part
		}
		p.undoLate(t, s, beside, reqs, results)
		return true
	})
}

// What the first command of a batch had taken before it was stopped is granted, and
// not sent again. Of what is late the undo is not final while it finds nothing.
func TestP6_LateRestOfABatch(t *testing.T) {
	t.Parallel()
	onAFreshProxy(t, func(p *proxy, s, beside *Store) bool {
		reqs := requests("k", 10)
		freed(t, s, reqs)
		unblock := blockDocument(t, beside.db.Collection(s.leases), document.KeyID("k4"))
		p.keepAfter(1, "replaceWith")
		reqs = requests("k", len(reqs))
		results, err := s.Acquire(p.untilKept(2), reqs) // k4, and those behind it
		late := p.keeps(2, 0)
		p.pass()
		unblock()
		if err != nil || !late || results[0].Status != driver.Granted {
			t.Logf("what the first command took was not found out: %v, %v", err, results)
			p.letGo()
			return false
		}
		for i, r := range results {
			if want := map[bool]driver.Status{true: driver.Granted, false: driver.Unknown}[i < 4]; r.Status != want {
				t.Errorf("k%d: %v (%v), want %v", i, r.Status, r.Err, want)
			}
			if i < 4 {
				release(t, s, holdOf(reqs[i], r))
			}
		}
		for i, q := range reqs[4:] {
			if r := release(t, s, undoOf(q)); r.Status != driver.Removed && r.Status != driver.Released || r.Final != (i == 0) {
				t.Errorf("undo of k%d: %+v, want nothing found, and final only with a number", i+4, r)
			}
		}
		p.letGo()
		for i := 0; !inspect(t, beside, "k9").Held; i++ {
			if i == 1000 {
				t.Fatal("the late command did nothing")
			}
			time.Sleep(10 * time.Millisecond)
		}
		for i, q := range reqs[5:] {
			if r := release(t, s, undoOf(q)); r.Status != driver.Released || !r.Final {
				t.Errorf("second undo of k%d: %+v, want released and final", i+5, r)
			}
		}
		for _, q := range reqs {
			if i := inspect(t, beside, q.Key); i.Held {
				t.Errorf("P6: a hold is left: %+v", i)
			}
		}
		return true
	})
}

// So does one whose majority is late.
func TestP6_LateRepeatOfABatch(t *testing.T) {
	srv := testserver.Start(t, testserver.Mongo) // a fail point is the server's
	p, s, beside := behindProxyOf(t, srv.DSN(), options.Client().SetAppName("late"))
	reqs := requests("k", 5)
	freed(t, s, reqs)
	failCommand(t, beside, "late", "update", bson.E{Key: "writeConcernError", Value: bson.D{
		{Key: "code", Value: command.CodeMaxTimeMSExpired}, {Key: "codeName", Value: "MaxTimeMSExpired"}, {Key: "errmsg", Value: "test"}}})
	p.keepAfter(1, "replaceWith")
	reqs = requests("k", len(reqs))
	results, err := s.Acquire(p.untilKept(1), reqs)
	if err != nil {
		results = make([]driver.Result, len(reqs))
	}
	p.waitKept(1)
	p.pass()
	p.undoLate(t, s, beside, reqs, results)
}

// A forced release whose reply was lost, or whose majority was late, tells what it ended.
func TestForceAfterALostReply(t *testing.T) {
	t.Parallel()
	p, s, beside := behindProxy(t)
	h := granted(t, beside, request("k"))
	p.lose("forced")
	i, err := s.ForceRelease(t.Context(), "k")
	if err != nil || !i.Held || i.Hold != h.ID || i.Token != h.Token || i.Left <= 0 || i.Left > h.TTL+2*time.Second {
		t.Errorf("%+v, %v, want the hold %v with token %d", i, err, h.ID, h.Token)
	}
	if i := inspect(t, beside, "k"); i.Held || i.Token != h.Token+driver.TokenRange {
		t.Errorf("after it: %+v", i)
	}
}

// A forced release of a key that had no document must not end a later hold.
func TestForceAfterALostConnection(t *testing.T) {
	t.Parallel()
	p, s, beside := behindProxy(t)
	p.cut("forced", nil)
	if i, err := s.ForceRelease(t.Context(), "k"); err != nil || i.Held {
		t.Fatal(i, err)
	}
	p.waitKept(1)
	h := granted(t, beside, request("k"))
	p.nothingLate(t, s, beside)
	if st := renew(t, beside, h); st != driver.Alive {
		t.Errorf("the late force ended a hold that came after it: %v", st)
	}
}
