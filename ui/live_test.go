package ui_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/ui"
)

// bubble runs a test by a fake clock. Streams are to end in it.
func bubble(t *testing.T, f func(t *testing.T)) { synctest.Test(t, f) }

// TestOnePollForAllViewers: 64 viewers cost the database one statement every 2 seconds, and none when they have gone.
func TestOnePollForAllViewers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStore()
		lock(t, client(t, s, "web"), "report")
		h := newPage(t, s, ui.Options{})
		var viewers []*stream
		for i := range 64 {
			query := [...]string{"", "?all=1", "?prefix=rep", "?k=7265706f7274"}[i%4]
			viewers = append(viewers, watch(t, h, query, from(fmt.Sprintf("10.0.0.%d:80", i+1))))
		}
		time.Sleep(20*time.Second + time.Millisecond)
		if n := s.lists.Load(); n != 11 { // at 0, 2, … 20 s
			t.Errorf("%d statements in 20 s, want 11", n)
		}
		for range 10 {
			get(t, h, "/")
			get(t, h, "/key?k=7265706f7274")
		}
		if n := s.lists.Load(); n != 11 {
			t.Errorf("%d statements after 20 more pages, want 11", n)
		}
		for i, v := range viewers {
			if n := len(v.updates(t)); n != 11 {
				t.Errorf("viewer %d heard %d times in 20 s, want 11", i, n)
			}
		}
		if more := watch(t, h, "", from("10.0.1.1:80")); true {
			<-more.gone
			if more.status != http.StatusServiceUnavailable || more.header.Get("Retry-After") == "" {
				t.Errorf("stream 65: %d, want 503", more.status)
			}
		}
		for _, v := range viewers {
			v.leave()
			<-v.gone
		}
		time.Sleep(3 * time.Second)
		before := s.lists.Load()
		time.Sleep(time.Hour)
		if n := s.lists.Load(); n != before {
			t.Errorf("%d statements while nobody looks", n-before)
		}
		for range 100 { // a page without script that reloads
			get(t, h, "/")
			time.Sleep(100 * time.Millisecond)
		}
		if n := s.lists.Load() - before; n > 6 {
			t.Errorf("%d statements for reloads in 10 s, want at most 6", n)
		}
	})
}

// TestStream: the first message has all keys, the next ones what has changed.
func TestStream(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStore()
		c := client(t, s, "web")
		lock(t, c, "b", rowlock.TTL(time.Hour))
		h := newPage(t, s, ui.Options{})
		v, one := watch(t, h, ""), watch(t, h, "?k=61")
		next := func() update {
			t.Helper()
			time.Sleep(2 * time.Second)
			u := v.updates(t)
			if len(u) != 1 {
				t.Fatalf("%d messages in 2 s: %+v", len(u), u)
			}
			return u[0]
		}
		time.Sleep(time.Millisecond)
		first := v.updates(t)
		if len(first) != 1 || !first[0].Whole || len(first[0].Rows) != 1 || first[0].Rows[0].ID != "62" || first[0].Losses == nil || !strings.Contains(first[0].Summary, "<strong>1</strong> held") {
			t.Fatalf("first: %+v", first)
		}
		contains(t, first[0].Rows[0].HTML, `<tr role="row" data-id="62">`, "held")
		if u := next(); u.Whole || len(u.Rows)+len(u.Gone) != 0 || u.Losses != nil {
			t.Errorf("nothing has changed, but it says %+v", u)
		}
		a := lock(t, c, "a")
		if u := next(); len(u.Rows) != 1 || u.Rows[0].ID != "61" || len(u.Gone) != 0 {
			t.Errorf("a is held: %+v", u)
		}
		must(t, a.Release(t.Context()))
		if u := next(); len(u.Rows) != 0 || len(u.Gone) != 1 || u.Gone[0] != "61" {
			t.Errorf("a is free: %+v", u)
		}
		s.fails.Store(true)
		if u := next(); !strings.Contains(u.Problem, "has not answered") || len(u.Rows)+len(u.Gone) != 0 {
			t.Errorf("the database has gone: %+v", u)
		}
		s.fails.Store(false)
		if u := next(); u.Problem != "" || len(u.Rows)+len(u.Gone) != 0 {
			t.Errorf("the database is back: %+v", u)
		}
		var states []string
		for _, u := range one.updates(t) {
			for _, r := range u.Rows {
				_, after, _ := strings.Cut(r.HTML, `<span class="badge `)
				state, _, _ := strings.Cut(after, `"`)
				states = append(states, state)
				if !strings.HasPrefix(r.HTML, `<dl data-id="61">`) {
					t.Errorf("the page of a key is sent %q", r.HTML)
				}
			}
		}
		if got := strings.Join(states, " "); got != "free held free" {
			t.Errorf("the page of a was told %q", got)
		}
		must(t, h.Close())
		<-v.gone
		<-one.gone
		if w := ask(h, "GET", "/", nil); w.Code != http.StatusServiceUnavailable {
			t.Errorf("after Close: %d, want 503", w.Code)
		}
	})
}

// TestDoesTheHolderLive: a lease that is renewed is said to be, and one that is not, not; of a new one nothing is said.
func TestDoesTheHolderLive(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStore()
		h := newPage(t, s, ui.Options{})
		c := client(t, s, "web")
		lock(t, c, "alive")
		lock(t, c, "dead", rowlock.NoRenew(), rowlock.TTL(time.Minute))
		lock(t, c, "read", rowlock.Shared())
		v := watch(t, h, "")
		began := time.Now()
		life := func(key string) string {
			t.Helper()
			_, row, _ := strings.Cut(get(t, h, "/?prefix="+key), `<tr role="row"`)
			_, life, ok := strings.Cut(row, `<span class="life`)
			if !ok {
				return ""
			}
			life, _, _ = strings.Cut(life, "</td>")
			return life
		}
		time.Sleep(time.Millisecond)
		for _, key := range []string{"alive", "dead", "read"} {
			if got := life(key); got != "" {
				t.Errorf("%s was just seen for the first time: %q", key, got)
			}
		}
		for at := 13 * time.Second; at < 33*time.Second; at += time.Second {
			time.Sleep(time.Until(began.Add(at)))
			for _, key := range []string{"alive", "read"} {
				contains(t, life(key), ">renewed <time")
			}
			lacks(t, life("dead"), "renewed <time")
		}
		time.Sleep(6 * time.Second)
		contains(t, life("dead"), ` silent">not renewed for <time`)
		contains(t, get(t, h, "/"), "<strong>1</strong> not renewed", "<strong>3</strong> held", "<strong>0</strong> waiting")
		v.leave()
		<-v.gone
	})
}

// TestLosses: what has ended without a release is listed, by how it ended, and a release is not.
func TestLosses(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStore()
		h := newPage(t, s, ui.Options{})
		v := watch(t, h, "")
		c := client(t, s, "web-1")
		lock(t, c, "expired", rowlock.NoRenew(), rowlock.TTL(20*time.Second))
		lock(t, c, "taken", rowlock.NoRenew(), rowlock.TTL(21*time.Second))
		lock(t, c, "forced")
		lock(t, c, "kept", rowlock.MinHold(time.Hour))
		released, kept, reader := lock(t, c, "released"), lock(t, c, "passed"), lock(t, c, "readers", rowlock.Shared())
		other := client(t, s, "web-2")
		taker := make(chan error, 1)
		go func() {
			_, err := other.Acquire(context.Background(), "taken")
			taker <- err
		}()
		time.Sleep(5 * time.Second)
		must(t, released.Release(t.Context()))
		must(t, kept.Release(t.Context()))
		lock(t, other, "passed")
		lock(t, other, "readers", rowlock.Shared())
		must(t, reader.Release(t.Context()))
		time.Sleep(3 * time.Second)
		for _, key := range []string{"forced", "readers"} { // of the readers the first has gone
			_, err := s.ForceRelease(t.Context(), key)
			must(t, err)
		}
		time.Sleep(20 * time.Second)
		must(t, <-taker)
		_, losses, _ := strings.Cut(get(t, h, "/"), `<div id="losses">`)
		losses, _, _ = strings.Cut(losses, "<footer>")
		contains(t, losses, ">expired</a></bdi>: the lease of <bdi>web-1</bdi>", "was not renewed and ran out</li>", "ran out; web-2 has the key since",
			">forced</a></bdi>: ", ">readers</a></bdi>: ", "was ended by force")
		lacks(t, losses, "released", "passed", "kept")
		if n := strings.Count(losses, "<li>"); n != 4 {
			t.Errorf("%d losses, want 4:\n%s", n, losses)
		}
		v.leave()
		<-v.gone
	})
}

// TestWhoWaits: the page says how many programs wait, and since when the first of them does.
func TestWhoWaits(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStore()
		h := newPage(t, s, ui.Options{})
		c := client(t, s, "web-1")
		lock(t, c, "line")
		lock(t, c, "plain")
		lock(t, c, "quiet")
		lock(t, c, "room", rowlock.Slots(2))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		for i := range 3 {
			other := client(t, s, "waiter")
			go func() {
				defer func() { done <- struct{}{} }()
				if i < 2 {
					_, _ = other.Acquire(ctx, "line", rowlock.Fair())
				} else {
					_, _ = other.Acquire(ctx, "plain")
				}
			}()
		}
		v := watch(t, h, "")
		time.Sleep(10 * time.Second)
		page := get(t, h, "/")
		cell := func(key string) string {
			_, row, _ := strings.Cut(page, "<bdi>"+key+"</bdi>")
			_, cell, _ := strings.Cut(row, `data-label="Waiting">`)
			cell, _, _ = strings.Cut(cell, "</td>")
			return cell
		}
		contains(t, cell("line"), "2 programs, the first for <time")
		contains(t, cell("plain"), "1 program, for <time")
		contains(t, cell("quiet"), "–")
		contains(t, page, "in 1 slot", "<bdi>web-1</bdi>", "<strong>3</strong> waiting")
		lock(t, c, "room", rowlock.Slots(2))
		lock(t, c, "room", rowlock.Shared())
		time.Sleep(3 * time.Second)
		contains(t, get(t, h, "/"), "by 1 reader and in 2 slots", "<bdi>web-1 <wbr>and <wbr>2 <wbr>others</bdi>")
		cancel()
		for range 3 {
			<-done
		}
		v.leave()
		<-v.gone
	})
}

// TestKept: a key that MinHold keeps is said to be kept, not held.
func TestKept(t *testing.T) {
	s := newStore()
	h := newPage(t, s, ui.Options{MayFree: anybody, Refresh: 100 * time.Millisecond})
	must(t, lock(t, client(t, s, "web-1"), "report", rowlock.MinHold(time.Hour)).Release(t.Context()))
	contains(t, get(t, h, "/"), `<span class="badge kept">kept</span>`, "MinHold keeps it from everybody")
	page := get(t, h, "/free?k=7265706f7274")
	contains(t, page, "before MinHold is over")
	if w := ask(h, "POST", "/free", fill(t, page, "report")); w.Code != http.StatusSeeOther {
		t.Errorf("POST: %d\n%s", w.Code, w.Body)
	}
}

// TestFreePhase: readers are ended together.
func TestFreePhase(t *testing.T) {
	s := newStore()
	h := newPage(t, s, ui.Options{MayFree: anybody, Refresh: 100 * time.Millisecond})
	lock(t, client(t, s, "web-1"), "report", rowlock.Shared())
	lock(t, client(t, s, "web-2"), "report", rowlock.Slots(2))
	page := get(t, h, "/free?k=7265706f7274")
	contains(t, page, "by 1 reader and in 1 slot", "and <wbr>1 <wbr>other")
	form := fill(t, page, "report")
	form.Set("alive", "1")
	if w := ask(h, "POST", "/free", form); w.Code != http.StatusSeeOther {
		t.Errorf("POST: %d\n%s", w.Code, w.Body)
	}
	contains(t, get(t, h, "/key?k=7265706f7274"), "badge free")
}

// pinnedStore is one whose List does not know of pinned keys, as that of databases.
type pinnedStore struct{ *store }

func (s pinnedStore) Inspect(ctx context.Context, keys []string) ([]driver.Info, error) {
	infos, err := s.store.Inspect(ctx, keys)
	if len(infos) == 1 && !infos[0].Held {
		infos[0].Pinned = true
	}
	return infos, err
}

// TestPinned: the page of a key that an open transaction keeps says so, and does not offer to free it.
func TestPinned(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := pinnedStore{newStore()}
		h := newPage(t, s, ui.Options{MayFree: anybody})
		must(t, lock(t, client(t, s, "web-1"), "report").Release(t.Context()))
		v := watch(t, h, "?k=7265706f7274")
		time.Sleep(3 * time.Second)
		contains(t, get(t, h, "/key?k=7265706f7274"), "badge pinned", "an open transaction of the last holder must end first")
		if w := ask(h, "GET", "/free?k=7265706f7274", nil); w.Code != http.StatusConflict {
			t.Errorf("the form: %d, want 409", w.Code)
		}
		v.leave()
		<-v.gone
	})
}

// TestObserver: the losses of the program's own clients are listed without anybody having looked, and once.
func TestObserver(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStore()
		h := newPage(t, s, ui.Options{})
		c, err := rowlock.New(s, rowlock.Options{Name: "billing", Observers: []*rowlock.Observer{h.Observer()}, ReapInterval: -1})
		must(t, err)
		t.Cleanup(func() { _ = c.Close(context.Background()) })
		lock(t, c, "forced")
		lock(t, c, "bounded", rowlock.TTL(5*time.Second), rowlock.MaxHold(5*time.Second))
		must(t, lock(t, c, "released").Release(t.Context()))
		_, err = s.ForceRelease(t.Context(), "forced")
		must(t, err)
		time.Sleep(20 * time.Second)
		if n := s.lists.Load(); n > 0 {
			t.Errorf("%d statements, though nobody looks", n)
		}
		losses := func() string {
			_, losses, _ := strings.Cut(get(t, h, "/"), `<div id="losses">`)
			return losses
		}
		contains(t, losses(), ">forced</a></bdi>: the lease of <bdi>billing</bdi>", "was ended by force", ">bounded</a>", "its MaxHold is over")
		v := watch(t, h, "")
		lock(t, c, "seen")
		time.Sleep(3 * time.Second)
		_, err = s.ForceRelease(t.Context(), "seen")
		must(t, err)
		time.Sleep(20 * time.Second)
		v.leave()
		<-v.gone
		if n := strings.Count(losses(), "<li>"); n != 3 {
			t.Errorf("%d losses, want 3:\n%s", n, losses())
		}
	})
}
