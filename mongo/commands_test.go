package mongolock

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/testserver"
	"github.com/rowlock/rowlock/mongo/internal/document"
)

// monitored opens a Store whose commands are collected.
func monitored(t *testing.T) (s *Store, sent func() []bson.Raw) {
	t.Helper()
	var mu sync.Mutex
	var commands []bson.Raw
	monitor := &event.CommandMonitor{Started: func(_ context.Context, e *event.CommandStartedEvent) {
		mu.Lock()
		defer mu.Unlock()
		commands = append(commands, bson.Raw(append([]byte(nil), e.Command...)))
	}}
	s = open(t, database(t, testserver.DSN(t, testserver.Mongo), options.Client().SetMonitor(monitor)), Options{})
	return s, func() []bson.Raw {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(commands)
	}
}

// sentBy collects the commands that a Store sends in its life: grants, refusals,
// renewals and releases of one key and of many, an undo, guarded transactions, and
// what operators do.
func sentBy(t *testing.T) []bson.Raw {
	t.Helper()
	s, sent := monitored(t)
	ctx := t.Context()
	for key, guarded := range map[string]bool{"plain": false, "guarded": true} {
		q := request(key)
		q.Guarded, q.Keep = guarded, time.Hour
		h := granted(t, s, q)
		refused(t, s, key)
		h.MaxHold = time.Hour
		renew(t, s, h)
		h.Undo = guarded
		release(t, s, h)
	}
	var reqs []driver.Request
	var holds []driver.Hold
	for _, key := range []string{"one", "two", "three"} {
		q := request(key)
		reqs, holds = append(reqs, q), append(holds, driver.Hold{Key: q.Key, ID: q.ID, TTL: q.TTL})
	}
	for _, call := range []func() error{
		func() error { _, err := s.Acquire(ctx, reqs); return err },
		func() error { _, err := s.Renew(ctx, holds); return err },
		func() error { _, err := s.Release(ctx, holds); return err },
		func() error { _, err := s.Inspect(ctx, []string{"one", "two"}); return err },
		func() error { _, err := s.List(ctx, "", "", 10); return err },
		func() error { _, err := s.ForceRelease(ctx, "one"); return err },
		func() error { age(t, s, "two", 48*time.Hour); _, err := s.Reap(ctx, time.Hour); return err },
		func() error { _, err := s.ReapRuns(ctx, time.Hour); return err },
	} {
		if err := call(); err != nil {
			t.Fatal(err)
		}
	}
	for _, keys := range [][]string{{"l"}, {"l1", "l2"}} { // with lines
		var first, next []driver.Request
		for _, key := range keys {
			first, next = append(first, request(key)), append(next, standerOf(key))
		}
		held, err := s.Acquire(ctx, first)
		must(t, err)
		_, err = s.Acquire(ctx, next)
		must(t, err)
		lined := make([]driver.Hold, len(keys))
		for i, q := range first {
			again := standerOf(q.Key)
			lined[i] = holdOf(q, held[i])
			lined[i].Next = &again
		}
		_, err = s.Release(ctx, lined)
		must(t, err)
		_, err = s.ForceRelease(ctx, keys[0])
		must(t, err)
		for i, q := range next {
			lined[i] = driver.Hold{Key: q.Key, ID: q.ID, TTL: q.TTL, Confirm: true, Keep: time.Second}
		}
		_, err = s.Renew(ctx, lined)
		must(t, err)
		_, err = s.Look(ctx, []driver.Entry{document.EntryOf(next[0])})
		must(t, err)
	}
	lease := guarded(t, locker(t, s, rowlock.Options{}), "transactions")
	nothing := func(context.Context) error { return nil }
	must(t, s.InTx(ctx, lease, nothing))
	must(t, s.Once(ctx, lease, "run", nothing))
	return sent()
}

// TestP1_OnlyTheServersClock: no command carries a time of this machine's clock.
func TestP1_OnlyTheServersClock(t *testing.T) {
	t.Parallel()
	seen := make(map[string]int)
	for _, c := range sentBy(t) {
		name := nameOf(t, c)
		seen[name]++
		if date := dateIn(t, c); date != "" && !testsOwn(c) {
			t.Errorf("P1: %s has a time of the client at %s: %v", name, date, c)
		}
	}
	for _, name := range []string{"findAndModify", "update", "find", "delete"} {
		if seen[name] == 0 {
			t.Errorf("no %s was seen: %v", name, seen)
		}
	}
}

// TestEveryWriteIsAcknowledgedByTheMajority: what less than that acknowledges can be
// forgotten, and a lock be granted twice.
func TestEveryWriteIsAcknowledgedByTheMajority(t *testing.T) {
	t.Parallel()
	writes, commits := 0, 0
	for _, c := range sentBy(t) {
		switch name := nameOf(t, c); name {
		case "commitTransaction", "findAndModify", "update", "delete", "insert":
			if name == "commitTransaction" {
				commits++
			} else if _, err := c.LookupErr("autocommit"); err == nil || testsOwn(c) { // its commit counts
				continue
			} else {
				writes++
			}
			if w, _ := c.Lookup("writeConcern", "w").StringValueOK(); w != "majority" {
				t.Errorf("P1: %s with the write concern %v", name, c.Lookup("writeConcern"))
			}
		}
	}
	if writes < 10 || commits < 2 {
		t.Errorf("only %d writes and %d commits were seen", writes, commits)
	}
}

// TestWhatIsToldIsReadAtTheMajority: what a hold came to and whether a run was marked
// is read as the majority has it. (What goes wrong otherwise: TestP2_FateThatNoMajorityHas,
// TestP13_MarkThatNoMajorityHas.)
func TestWhatIsToldIsReadAtTheMajority(t *testing.T) {
	t.Parallel()
	s, sent := monitored(t)
	ctx := t.Context()
	var gone []driver.Hold
	for _, key := range []string{"one", "two"} {
		gone = append(gone, granted(t, s, request(key)))
		release(t, s, gone[len(gone)-1])
	}
	lease := guarded(t, locker(t, s, rowlock.Options{}), "k")
	once := func() error { return s.Once(ctx, lease, "run", func(context.Context) error { return nil }) }
	must(t, once())
	for name, call := range map[string]func() error{
		"renew one":    func() error { _, err := s.Renew(ctx, gone[:1]); return err },
		"renew two":    func() error { _, err := s.Renew(ctx, gone); return err },
		"release one":  func() error { _, err := s.Release(ctx, gone[:1]); return err },
		"release two":  func() error { _, err := s.Release(ctx, gone); return err },
		"a look":       func() error { _, err := s.Look(ctx, []driver.Entry{{Key: "one"}, {Key: "k"}}); return err },
		"a marked run": func() error { wants(t, "Once", once(), rowlock.ErrAlreadyRan); return nil },
	} {
		before := len(sent())
		must(t, call())
		reads := 0
		for _, c := range sent()[before:] {
			if nameOf(t, c) != "find" {
				continue
			}
			reads++
			if level, _ := c.Lookup("readConcern", "level").StringValueOK(); level != "majority" {
				t.Errorf("P2, P13: %s reads with the concern %v", name, c.Lookup("readConcern"))
			}
		}
		if reads == 0 {
			t.Errorf("%s: no read was seen", name)
		}
	}
}

func nameOf(t *testing.T, command bson.Raw) string {
	t.Helper()
	elements, err := command.Elements()
	if err != nil || len(elements) == 0 {
		t.Fatalf("command %v: %v", command, err)
	}
	return elements[0].Key()
}

// testsOwn tells the commands of the test itself, by which age moves a document's times.
func testsOwn(command bson.Raw) bool {
	_, err := command.LookupErr("maxTimeMS")
	return err != nil
}

// dateIn is the path of a date in a document; empty: there is none.
func dateIn(t *testing.T, doc bson.Raw) string {
	t.Helper()
	elements, err := doc.Elements()
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range elements {
		switch v := e.Value(); v.Type {
		case bson.TypeDateTime:
			return e.Key()
		case bson.TypeEmbeddedDocument, bson.TypeArray:
			if in := dateIn(t, bson.Raw(v.Value)); in != "" {
				return e.Key() + "." + in
			}
		}
	}
	return ""
}

// TestP4_FencesAreFoundAtTheMajority: whether a new document has a fence is read as the majority has it after the grant.
// A server that is the primary no more may not know of the fence that the next one has, and a guarded transaction of an
// older hold goes on.
func TestP4_FencesAreFoundAtTheMajority(t *testing.T) {
	t.Parallel()
	s, sent := monitored(t)
	for name, reqs := range map[string][]driver.Request{
		"one key":   {request("one")},
		"two keys":  {request("two"), request("three")},
		"a reader":  {readerOf("four")},
		"two slots": {slotOf("five", 1), slotOf("six", 1)},
	} {
		before := len(sent())
		mustAll(t, s, reqs, driver.Granted)
		reads := 0
		for _, c := range sent()[before:] {
			if of, _ := c.Lookup("find").StringValueOK(); of != s.fences {
				continue
			}
			reads++
			level, _ := c.Lookup("readConcern", "level").StringValueOK()
			if at, _, ok := c.Lookup("readConcern", "afterClusterTime").TimestampOK(); level != "majority" || !ok || at == 0 {
				t.Errorf("P4: %s: fences are looked for with the concern %v", name, c.Lookup("readConcern"))
			}
		}
		if reads == 0 {
			t.Errorf("%s: nobody looked for its fence", name)
		}
	}
}
