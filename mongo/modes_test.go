package mongolock

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/locktest"
	"github.com/rowlock/rowlock/mongo/internal/document"
)

// What the modes Shared and Slot cost and do beyond the cases of package locktest.

func readerOf(key string) driver.Request {
	q := request(key)
	q.Mode = driver.Shared
	return q
}

func slotOf(key string, n int) driver.Request {
	q := request(key)
	q.Mode, q.Slots, q.Slot = driver.Slot, n, -1
	return q
}

// denied is the refusal of a request.
func denied(t testing.TB, s *Store, q driver.Request) driver.Result {
	t.Helper()
	r := acquire(t, s, q)
	if r.Status != driver.Held {
		t.Fatalf("acquire %q of mode %v: %v, want held", q.Key, q.Mode, r.Status)
	}
	return r
}

// commandsOf are the names of the commands that f sends.
func commandsOf(t *testing.T, sent func() []bson.Raw, f func()) []string {
	t.Helper()
	before := len(sent())
	f()
	var names []string
	for _, c := range sent()[before:] {
		if name := nameOf(t, c); name != "ping" {
			names = append(names, name)
		}
	}
	return names
}

// mustSend calls f, which returns the commands of one try, until they are the wanted ones: a
// server under load stops commands, which are then sent again.
func mustSend(t *testing.T, what string, want []string, f func(try int) []string) {
	t.Helper()
	var got []string
	for try := range 10 {
		if got = f(try); slices.Equal(got, want) {
			return
		}
	}
	t.Errorf("%s sends %v, want %v", what, got, want)
}

// TestP25_Commands: a cycle of a reader and of a slot is two commands, as an exclusive one; a key
// that was never shared has the commands that it has without these modes (their bytes are
// pinned by TestDocsCommands).
func TestP25_Commands(t *testing.T) {
	s, sent := monitored(t)
	slot := func(key string) driver.Request { return slotOf(key, 5) }
	for name, ask := range map[string]func(string) driver.Request{"exclusive": request, "reader": readerOf, "slot": slot} {
		release(t, s, granted(t, s, ask(name))) // the first grant looks for a fence
		for range 3 {
			mustSend(t, "N11: grant, renewal and release of mode "+name, []string{"findAndModify", "update", "findAndModify"}, func(int) []string {
				return commandsOf(t, sent, func() {
					h := granted(t, s, ask(name))
					renew(t, s, h)
					release(t, s, h)
				})
			})
		}
	}
	// A writer that waits for a phase: one more command the first time, which makes it stand, then one for each look.
	mustSend(t, "a writer that looks at a phase three times", []string{"findAndModify", "findAndModify", "findAndModify", "find", "find", "find"}, func(try int) []string {
		key := fmt.Sprint("k", try)
		h := granted(t, s, readerOf(key))
		defer release(t, s, h)
		return commandsOf(t, sent, func() {
			w := standerOf(key)
			denied(t, s, w)
			for range 3 {
				viewOf(t, s, w)
			}
		})
	})
	for _, c := range sent() {
		if text := c.String(); strings.Contains(text, base64.StdEncoding.EncodeToString([]byte("exclusive"))) && strings.Contains(text, "holds") {
			t.Errorf("P25: of a key that was never shared: %s", text)
		}
	}
}

// TestReplyHasTheOwnEntryOnly: hundreds of holds do not travel with each answer.
func TestReplyHasTheOwnEntryOnly(t *testing.T) {
	t.Parallel()
	s := shared(t)
	for range 200 {
		granted(t, s, slotOf("k", 1000))
	}
	h := granted(t, s, readerOf("k"))
	for name, cmd := range map[string]bson.D{
		"join":    document.TakeOne(s.leases, readerOf("k"), false),
		"refused": document.TakeInLine(s.leases, standerOf("k"), false),
		"taking":  document.TakeOne(s.leases, request("k"), false),
		"inspect": {{Key: "find", Value: s.leases}, {Key: "filter", Value: document.ByKey("k")}, {Key: "projection", Value: document.PhaseFields()}},
		"fate":    {{Key: "find", Value: s.leases}, {Key: "filter", Value: document.ByKey("k")}, {Key: "projection", Value: document.EntryFields([]driver.Hold{h})}},
		"release": document.EndOne(s.leases, h),
	} {
		reply, err := s.cmd.Run(t.Context(), nil, cmd)
		must(t, err)
		if len(reply) > 1500 {
			t.Errorf("%s: a reply of %d bytes", name, len(reply))
		}
	}
	if i := inspect(t, s, "k"); i.Slots != 200 || i.Readers < 0 || i.FreeSlot != 200 {
		t.Errorf("200 slots: %+v", i)
	}
}

// TestP16_HundredReaders: each is a hold of its own, and a writer comes after the last.
func TestP16_HundredReaders(t *testing.T) {
	t.Parallel()
	s := shared(t)
	var mu sync.Mutex
	var holds []driver.Hold
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 13 {
				r := acquire(t, s, readerOf("k"))
				if r.Status != driver.Granted {
					t.Errorf("P16: a reader beside readers: %+v", r)
				}
			}
		})
	}
	wg.Wait()
	if i := inspect(t, s, "k"); i.Readers != 104 {
		t.Errorf("P18: %d readers, want 104", i.Readers)
	}
	_, err := s.ForceRelease(patient(t), "k")
	must(t, err)
	for range 100 {
		h := granted(t, s, readerOf("k"))
		mu.Lock()
		holds = append(holds, h)
		mu.Unlock()
	}
	results := settled(t, func() ([]driver.Result, error) { return s.Renew(t.Context(), holds) })
	for i, r := range results {
		if r.Status != driver.Alive {
			t.Errorf("P18: renewal %d of 100 readers: %v", i, r.Status)
		}
	}
	if r := acquire(t, s, request("k")); r.Status != driver.Held || !r.Shared {
		t.Errorf("P16: a writer beside 100 readers: %+v", r)
	}
	results = settled(t, func() ([]driver.Result, error) { return s.Release(patient(t), holds) })
	for i, r := range results {
		if r.Status != driver.Released {
			t.Errorf("P18: release %d of 100 readers: %v", i, r.Status)
		}
	}
	if w := granted(t, s, request("k")); w.Token < holds[0].Token+driver.TokenRange {
		locktest.Breach(t, "P20", "token %d after %d", w.Token, holds[0].Token)
	}
}

// TestP15_ManyJoins: readers and slots of several keys go by one command and a find, and one
// corrupt document does not suffer the others.
func TestP15_ManyJoins(t *testing.T) {
	t.Parallel()
	s, sent := monitored(t)
	var reqs []driver.Request
	for i := range 20 {
		reqs = append(reqs, readerOf(fmt.Sprint("r", i)), slotOf(fmt.Sprint("s", i), 2))
	}
	freed(t, s, reqs)
	anew := func() {
		for i := range reqs {
			reqs[i].ID = newID()
		}
	}
	var holds []driver.Hold
	mustSend(t, "40 joins", []string{"update", "find"}, func(int) []string {
		for _, h := range holds {
			release(t, s, h)
		}
		anew()
		return commandsOf(t, sent, func() { holds = grantedAll(t, s, reqs) })
	})
	mustSend(t, "40 renewals", []string{"update"}, func(int) []string {
		return commandsOf(t, sent, func() {
			_, err := patiently(func() ([]driver.Result, error) { return s.Renew(t.Context(), holds) })
			must(t, err)
		})
	})
	results, err := patiently(func() ([]driver.Result, error) { return s.Release(patient(t), holds) })
	must(t, err)
	for i, r := range results {
		if late(r) {
			release(t, s, holds[i])
		} else if r.Status != driver.Released {
			t.Errorf("release %d: %v (%v)", i, r.Status, r.Err)
		}
	}
	_, err = s.db.Collection(s.leases).UpdateOne(t.Context(), document.ByKey("r0"), document.Op("$set", bson.D{
		{Key: "hold", Value: int64(7)}, {Key: "holds", Value: bson.A{"x", bson.D{{Key: "h", Value: 1}, {Key: "e", Value: "soon"}}}}, {Key: "expiresAt", Value: time.Now().Add(time.Hour)}}))
	must(t, err)
	anew()
	for range 20 {
		if results, err = s.Acquire(patient(t), reqs); err != nil || !slices.ContainsFunc(results[1:], late) {
			break
		}
	}
	must(t, err)
	for i, r := range results {
		if i > 0 && r.Status != driver.Granted {
			t.Errorf("P15: %q beside a corrupt document: %v (%v)", reqs[i].Key, r.Status, r.Err)
		}
	}
}
