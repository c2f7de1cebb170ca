package ui_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/ui"
)

// claims are what a page may only say of keys that it has read.
var claims = []string{"is held", "is taken", "are taken", "was held", "badge", "has no key", "had no key", "No loss was seen", `id="live">As of`, `id="live">Live`, "is free"}

// TestUnread: a page that is opened while the database fails or does not answer says nothing of any key, in none of its
// forms. It is there within the time that an answer may take.
func TestUnread(t *testing.T) {
	for name, fault := range map[string]func(*store){
		"it fails":           func(s *store) { s.fails.Store(true) },
		"it does not answer": func(s *store) { s.hangs.Store(true) },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := newStore()
				lock(t, client(t, s, "web"), "report")
				fault(s)
				h := newPage(t, s, ui.Options{MayFree: anybody})
				for _, target := range []string{"/", "/?all=1", "/?prefix=rep", "/?after=61", "/key?k=7265706f7274", "/key?k=6e6f"} {
					began := time.Now()
					page := get(t, h, target)
					if took := time.Since(began); took > 4*time.Second {
						t.Errorf("GET %s took %v", target, took)
					}
					contains(t, page, "The database does not answer", "not known", `id="live">Not live.`)
					lacks(t, page, claims...)
					if strings.Contains(page, `id="act">`) {
						t.Errorf("GET %s: it offers to free the key", target)
					}
				}
				for _, target := range []string{"/keys.json", "/keys.json?k=7265706f7274", "/free?k=7265706f7274", "/free?k=6e6f"} {
					w := ask(h, "GET", target, nil)
					if w.Code != http.StatusBadGateway {
						t.Errorf("GET %s: %d, want 502", target, w.Code)
					}
					lacks(t, w.Body.String(), claims...)
				}
				for _, query := range []string{"", "?k=7265706f7274"} {
					v := watch(t, h, query)
					time.Sleep(5 * time.Second)
					updates := v.updates(t)
					if len(updates) == 0 {
						t.Fatalf("the stream %q says nothing", query)
					}
					for _, u := range updates {
						if u.Problem == "" || u.Old == 0 || u.Clock != "" || strings.ContainsAny(u.Summary, "0123456789") || len(u.Rows) > 0 {
							t.Errorf("the stream %q says %+v", query, u)
						}
						lacks(t, u.None+*u.Losses, claims...)
						break // the others have no losses
					}
					v.leave()
					<-v.gone
				}
			})
		})
	}
}

// TestOldAnswer: while the database does not answer a page shows what it said last, as of then: durations do not go on, and
// no hold can be ended. When it answers again they do.
func TestOldAnswer(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStore()
		lock(t, client(t, s, "web"), "report", rowlock.TTL(time.Hour))
		h := newPage(t, s, ui.Options{MayFree: anybody})
		v := watch(t, h, "")
		time.Sleep(7 * time.Second)
		s.hangs.Store(true)
		time.Sleep(20 * time.Second)
		list, key := get(t, h, "/"), get(t, h, "/key?k=7265706f7274")
		for _, page := range []string{list, key} {
			contains(t, page, "has not answered since", "may be wrong by now", ">6 s</time>", `id="live">Not live: as of `, `class="old"`)
		}
		contains(t, list, "as the database said at ")
		contains(t, key, `id="act" hidden`)
		contains(t, get(t, h, "/?prefix=x"), "No key that begins with x was held at ")
		if w := ask(h, "GET", "/free?k=7265706f7274", nil); w.Code != http.StatusBadGateway {
			t.Errorf("the form: %d, want 502", w.Code)
		}
		updates := v.updates(t)
		if u := updates[len(updates)-1]; u.Problem == "" || u.Old != time.Now().Add(-21*time.Second).UnixMilli() || strings.ContainsAny(u.Summary, "0123456789") {
			t.Errorf("the stream says %+v", u)
		}
		s.hangs.Store(false)
		time.Sleep(13 * time.Second)
		list = get(t, h, "/")
		contains(t, list, ">40 s</time>", `id="live">As of `)
		lacks(t, list, "has not answered", `class="old"`)
		v.leave()
		<-v.gone
	})
}

// TestForgottenAnswer: an answer of a time when somebody else looked is not shown to a viewer who comes when the database
// has gone.
func TestForgottenAnswer(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStore()
		lock(t, client(t, s, "web"), "report")
		h := newPage(t, s, ui.Options{})
		contains(t, get(t, h, "/"), "report")
		time.Sleep(time.Hour)
		s.fails.Store(true)
		page := get(t, h, "/")
		contains(t, page, "The database does not answer", `id="live">Not live.`)
		lacks(t, page, append(claims, "report")...)
	})
}

// TestSlowAnswer: a poll that takes longer than viewers wait is told of when it has its answer.
func TestSlowAnswer(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStore()
		lock(t, client(t, s, "web"), "report")
		h := newPage(t, slowStore{s}, ui.Options{})
		v := watch(t, h, "")
		time.Sleep(time.Minute)
		updates := v.updates(t)
		if len(updates) < 10 {
			t.Fatalf("%d messages in a minute", len(updates))
		}
		for i, u := range updates {
			if slow := i%2 == 0; slow != (u.Problem != "") {
				t.Errorf("message %d: %+v", i, u)
			}
		}
		v.leave()
		<-v.gone
	})
}

// slowStore lists its keys in 5 s.
type slowStore struct{ *store }

func (s slowStore) List(ctx context.Context, prefix, after string, limit int) ([]driver.Info, error) {
	time.Sleep(5 * time.Second)
	return s.store.List(ctx, prefix, after, limit)
}

// TestCutList: where a poll does not read all keys the page says nothing of the others.
func TestCutList(t *testing.T) {
	s := newStore()
	c := client(t, s, "web")
	for _, key := range []string{"a", "b", "c"} {
		must(t, lock(t, c, key).Release(t.Context()))
	}
	lock(t, c, "d")
	page := get(t, newPage(t, s, ui.Options{Keys: 3}), "/")
	contains(t, page, "None of the first 3 keys is held. There are more")
	lacks(t, page, "No key is held")
}
