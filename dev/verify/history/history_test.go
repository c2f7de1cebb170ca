package history

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestRoundTrip(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	r := create(t, folder, "p1")
	acquire := r.Begin(Event{Kind: Acquire, Space: "version", Key: "k\x00\"ä\xff"})
	acquire.Result, acquire.Token = OK, 1024
	r.End(acquire)
	write := r.Open(Event{Kind: Write, Space: "version", Key: "k", Lease: acquire.ID, Token: 1024, Value: 7})
	write.Result = Stale
	r.End(write)
	lost := r.Open(Event{Kind: Write, Space: "version", Key: "k", Lease: acquire.ID, Token: 1024, Value: 8})
	r.Add(Event{Kind: Fault, Key: "pause", Begin: 5, End: 6, Error: "stopped\nthe server"})
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	events, err := Load(folder)
	if err != nil {
		t.Fatal(err)
	}
	var kinds []string
	for i, e := range events {
		kinds = append(kinds, string(e.Kind)+":"+string(e.Result))
		if e.ID == 0 || e.Client != "p1" || e.Kind != Fault && e.Begin == 0 {
			t.Errorf("event %d lacks a name or a time: %+v", i, e)
		}
	}
	if got, want := strings.Join(kinds, " "), "fault: acquire:ok write:stale write:"; got != want {
		t.Errorf("events %q, want %q", got, want)
	}
	if events[3].End != 0 || events[3].ID != lost.ID || events[2].End < events[2].Begin {
		t.Errorf("the pending write or the answered one is wrong: %+v", events[2:])
	}
}

func TestLineIsJSON(t *testing.T) {
	t.Parallel()
	for _, e := range []Event{
		{},
		{ID: 1, Client: "p1", Lease: 2, Space: "s", Key: "k", Kind: Commit, Result: OK, Begin: 3, Sent: 4, End: 5, Token: 6, Value: 7, Owner: "o", Error: "e", Reason: "r", Raised: "1213", Run: "n", Mode: Slot, Slot: 9, Slots: 10, Group: 11, Fair: true, Try: true, Age: 8},
		{ID: -1, Client: "quote\" back\\ line\n tab\t nul\x00 del\x7f é <&> \u2028", Begin: time.Hour},
	} {
		line := appendLine(nil, &e)
		if bytes.Count(line, []byte("\n")) != 1 {
			t.Errorf("not one line: %q", line)
		}
		got, err := parse(line)
		if err != nil || !reflect.DeepEqual(got, e) {
			t.Errorf("read back %+v, %v; written %+v", got, err, e)
		}
		want, _ := json.Marshal(e)
		if !bytes.Equal(append(want, '\n'), line) {
			t.Errorf("line %s\nwant %s", line, want)
		}
	}
}

func TestManyGoroutines(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	r := create(t, folder, "p1")
	const workers, each = 8, 500
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			for range each {
				r.End(r.Open(Event{Kind: Write, Space: "version", Key: "k"}))
			}
		})
	}
	all.Wait()
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	events, err := Load(folder)
	if err != nil || len(events) != workers*each {
		t.Fatalf("%d events, %v", len(events), err)
	}
}

func TestTorn(t *testing.T) {
	t.Parallel()
	const a, b = `{"id":1,"client":"p1","space":"s","kind":"look","begin":1,"end":2}`, `{"id":2,"client":"p1","space":"s","kind":"look","begin":3,"end":4}`
	for _, c := range []struct {
		name, file string
		events     int
		fault      string
	}{
		{"whole", a + "\n" + b + "\n", 2, ""},
		{"without the last line feed", a + "\n" + b, 2, ""},
		{"half a last line", a + "\n" + b[:20], 1, ""},
		{"a comment", "# what it is\n\n" + a + "\n", 1, ""},
		{"half a line in the middle", a[:20] + "\n" + b + "\n", 0, "p1.jsonl:1:"},
		{"half a line before another", a + "\n" + a[:20] + b + "\n", 0, "p1.jsonl:2:"},
		{"half a last line that was ended", a + "\n" + b[:20] + "\n", 0, "p1.jsonl:2:"},
		{"two events in a line", a + b + "\n", 0, "p1.jsonl:1:"},
		{"an unknown member", strings.Replace(a, "space", "place", 1) + "\n", 0, "p1.jsonl:1:"},
		{"an ID twice", a + "\n" + strings.Replace(b, `"id":2`, `"id":1`, 1) + "\n", 0, "p1.jsonl:2:"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			folder := t.TempDir()
			if err := os.WriteFile(filepath.Join(folder, "p1.jsonl"), []byte(c.file), 0o644); err != nil {
				t.Fatal(err)
			}
			events, err := Load(folder)
			if c.fault == "" && err != nil || c.fault != "" && (err == nil || !strings.Contains(err.Error(), c.fault)) {
				t.Errorf("error %v, want %q", err, c.fault)
			}
			if len(events) != c.events {
				t.Errorf("%d events, want %d", len(events), c.events)
			}
		})
	}
	if _, err := Load(t.TempDir()); err == nil {
		t.Error("an empty folder is no history")
	}
}

// A recorder tells of the others too; their own events keep their IDs.
func TestOthersEvents(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	p1, conductor := create(t, folder, "p1"), create(t, folder, "conductor")
	p1.End(p1.Begin(Event{Kind: Acquire, Space: "s", Key: "k", Result: Refused}))
	conductor.End(conductor.Begin(Event{Kind: Killed, Client: "p1"}))
	events, err := Load(folder)
	if err != nil || len(events) != 2 || events[0].ID != events[1].ID {
		t.Fatalf("%+v, %v", events, err)
	}
	if _, err := Create(folder, "p1"); err == nil {
		t.Error("a second process of the same name")
	}
}

func TestUnwritable(t *testing.T) {
	t.Parallel()
	r := create(t, t.TempDir(), "p1")
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	r.Add(Event{Kind: Look})
	if r.Err() == nil || r.Close() == nil {
		t.Error("a lost event was not told of")
	}
}

func TestMeta(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	want := Meta{Seed: 7, Started: time.Now().UTC().Round(0), Begin: 5, Spaces: map[string]Space{"version": {Server: "MySQL 9", Strategy: "version", TTL: time.Second}}}
	if err := WriteMeta(folder, want); err != nil {
		t.Fatal(err)
	}
	got, err := LoadMeta(folder)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("read back %+v, %v", got, err)
	}
}

func BenchmarkRecord(b *testing.B) {
	r := create(b, b.TempDir(), "p1")
	for b.Loop() {
		e := r.Begin(Event{Kind: Look, Space: "version", Key: "key-17", Lease: 1, Token: 1 << 40})
		e.Result = OK
		r.End(e)
	}
}

func create(t testing.TB, folder, client string) *Recorder {
	t.Helper()
	r, err := Create(folder, client)
	if err != nil {
		t.Fatal(fmt.Errorf("create: %w", err))
	}
	return r
}
