package main

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/memory"
	mysqllock "github.com/rowlock/rowlock/mysql"
)

// TestWrongBooks: the verdict on a night sees every way to post wrongly.
func TestWrongBooks(t *testing.T) {
	for name, c := range map[string]struct {
		books books
		wrong bool
	}{
		"each once":            {books{Accounts: 10, Once: 10, Expected: 500, Sum: 500}, false},
		"one twice":            {books{Accounts: 10, Once: 9, More: 1, Expected: 500, Sum: 510}, true},
		"one never":            {books{Accounts: 10, Once: 9, Never: 1, Expected: 500, Sum: 490}, true},
		"an account is lost":   {books{Accounts: 10, Once: 9, Expected: 500, Sum: 500}, true},
		"posted, not credited": {books{Accounts: 10, Once: 10, Expected: 500, Sum: 490}, true},
		"nothing":              {books{Accounts: 10, Never: 10, Expected: 500, Sum: 490}, true},
	} {
		if got := c.books.wrong(); (got != "") != c.wrong {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// TestChunks: every account is in one chunk.
func TestChunks(t *testing.T) {
	next := 1
	runs := map[string]bool{}
	for _, c := range chunks("2026-11-21", 105, 25) {
		if c.First != next || c.Last < c.First || c.Last-c.First >= 25 {
			t.Errorf("%s: accounts %d to %d, want it to begin with %d", c.Run, c.First, c.Last, next)
		}
		next = c.Last + 1
		runs[c.Run] = true
	}
	if next != 106 || len(runs) != 5 || !runs["2026-11-21/chunk-005"] {
		t.Errorf("the chunks end with account %d, their runs are %v", next-1, runs)
	}
}

// TestOver: the night is not over before a pod that stood still has had a tick.
func TestOver(t *testing.T) {
	n := newNight(io.Discard, mysqllock.VersionColumn, 2)
	said := func(pod int, k kind) {
		n.heard(pod, event{Kind: k})
	}
	for _, step := range []struct {
		do   func()
		over bool
	}{
		{func() { said(1, began); said(1, posted) }, false},
		{func() { n.Frozen(1, time.Second) }, false},
		{func() { said(2, began); said(2, already); said(2, posted); said(2, done) }, false},
		{func() { n.Thawed(1) }, false},
		{func() { said(1, lost) }, true},
	} {
		if step.do(); n.over() != step.over {
			t.Errorf("over is %t, want %t: %+v", n.over(), step.over, n)
		}
	}
	n.Frozen(1, time.Second)
	if said(1, alert); len(n.Alerts) > 0 {
		t.Errorf("an error of a pod that just stood still is an alert: %v", n.Alerts)
	}
	said(1, refused)
	if said(1, alert); len(n.Alerts) > 0 {
		t.Errorf("one error of a pod is an alert: %v", n.Alerts)
	}
	if said(1, alert); len(n.Alerts) != 1 {
		t.Errorf("two errors of a pod in a row are no alert: %v", n.Alerts)
	}
	if n.Takeovers != 1 || n.Already != 1 || n.Freezes != 2 {
		t.Errorf("%d takeovers, %d chunks found posted, %d freezes", n.Takeovers, n.Already, n.Freezes)
	}
}

// TestPage: the page says which pod has the lock, and is gone after stop.
func TestPage(t *testing.T) {
	store := memory.New()
	locks, err := rowlock.New(store, rowlock.Options{Owner: "pod 2"})
	if err != nil {
		t.Fatal(err)
	}
	defer locks.Close(t.Context())
	if _, err := locks.TryAcquire(t.Context(), jobKey); err != nil {
		t.Fatal(err)
	}
	link, stop, err := servePage(store, "127.0.0.1:0", "The night")
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.Get(link)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil || !strings.Contains(string(text), "pod 2") || !strings.Contains(string(text), jobKey) {
		t.Errorf("%v: the page does not say that pod 2 has %s:\n%s", err, jobKey, text)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	if answer, err := http.Get(link); err == nil {
		_ = answer.Body.Close()
		t.Error("the page is there after stop")
	}
	if _, _, err := servePage(store, "0.0.0.0:0", "The night"); err == nil {
		t.Error("the page listens where other machines reach it")
	}
}
