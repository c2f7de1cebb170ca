package ui_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/ui"
)

var hidden = regexp.MustCompile(`<input type="hidden" name="(\w+)" value="([^"]*)">`)

// fill reads the form of a page and types the key.
func fill(t testing.TB, page, typed string) url.Values {
	t.Helper()
	form := url.Values{"typed": {typed}}
	for _, m := range hidden.FindAllStringSubmatch(page, -1) {
		form.Set(m[1], m[2])
	}
	if form.Get("token") == "" || form.Get("hold") == "" {
		t.Fatalf("the page has no form:\n%s", page)
	}
	return form
}

// held fails unless the key has that hold.
func held(t testing.TB, s *store, lease *rowlock.Lease) {
	t.Helper()
	infos, err := s.Inspect(t.Context(), []string{lease.Key()})
	must(t, err)
	if !infos[0].Held || infos[0].Token != lease.Token() {
		t.Errorf("%q is not held any more by token %d: %+v", lease.Key(), lease.Token(), infos[0])
	}
}

// TestFree: a hold is ended by its form, after a look whether the holder lives, and is logged and listed.
func TestFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		var log bytes.Buffer
		h := newPage(t, s, ui.Options{MayFree: anybody, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		lease := lock(t, client(t, s, "web-1"), "report")
		contains(t, get(t, h, "/key?k=7265706f7274"), `href="free?k=7265706f7274"`, "as ada")
		page := get(t, h, "/free?k=7265706f7274")
		contains(t, page, "web-1", "although its holder may live", "Type the key")
		form := fill(t, page, "report")

		form.Set("typed", "reports")
		w := ask(h, "POST", "/free", form)
		if w.Code != http.StatusUnprocessableEntity {
			t.Errorf("another key was typed: %d, want 422", w.Code)
		}
		contains(t, w.Body.String(), "That is not the key", `aria-describedby="error"`)
		form.Set("typed", "report")
		if w = ask(h, "POST", "/free", form); w.Code != http.StatusConflict {
			t.Errorf("a holder of whom nothing is known was ended: %d, want 409", w.Code)
		}
		viewer := watch(t, h, "")
		time.Sleep(20 * time.Second)
		if w = ask(h, "POST", "/free", form); w.Code != http.StatusConflict {
			t.Errorf("a holder that lives was ended: %d, want 409", w.Code)
		}
		contains(t, w.Body.String(), "Its holder lives", "although its holder lives")
		held(t, s, lease)

		form.Set("alive", "1")
		w = ask(h, "POST", "/free", form)
		if w.Code != http.StatusSeeOther {
			t.Fatalf("POST: %d\n%s", w.Code, w.Body)
		}
		after := get(t, h, "/"+w.Header().Get("Location"))
		contains(t, after, fmt.Sprintf("The hold with token %d was ended.", lease.Token()), "badge free", "was ended from this page by ada")
		contains(t, log.String(), "key=report", fmt.Sprintf("token=%d", lease.Token()), "owner=web-1", "actor=ada")
		time.Sleep(20 * time.Second)
		var lost *rowlock.LostError
		if !errors.As(lease.Err(), &lost) || lost.Reason != rowlock.ReasonForced {
			t.Errorf("the holder learns %v, want a loss by force", lease.Err())
		}
		if n := strings.Count(get(t, h, "/"), "<li>"); n != 1 {
			t.Errorf("%d losses are listed, want 1", n)
		}
		if w = ask(h, "POST", "/free", form); w.Code != http.StatusConflict {
			t.Errorf("the same form again: %d, want 409", w.Code)
		}
		if w = ask(h, "GET", "/free?k=7265706f7274", nil); w.Code != http.StatusConflict {
			t.Errorf("the form of a key that is free: %d, want 409", w.Code)
		}
		viewer.leave()
		<-viewer.gone
	})
}

// TestFreeSilentHolder: a lease that nobody renews is ended without a further question.
func TestFreeSilentHolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		h := newPage(t, s, ui.Options{MayFree: anybody})
		lock(t, client(t, s, "web-1"), "report", rowlock.NoRenew(), rowlock.TTL(time.Hour))
		viewer := watch(t, h, "")
		time.Sleep(31 * time.Minute)
		page := get(t, h, "/free?k=7265706f7274")
		contains(t, page, "not renewed for")
		lacks(t, page, "although")
		if w := ask(h, "POST", "/free", fill(t, page, "report")); w.Code != http.StatusSeeOther {
			t.Errorf("POST: %d\n%s", w.Code, w.Body)
		}
		viewer.leave()
		<-viewer.gone
	})
}

var inSeconds = regexp.MustCompile(`In (\d+) s it is known`)

// TestFreeWhenItIsKnown: the form says when it is known whether the holder lives, and that comes nearer.
func TestFreeWhenItIsKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		h := newPage(t, s, ui.Options{MayFree: anybody})
		lock(t, client(t, s, "web-1"), "report", rowlock.NoRenew(), rowlock.TTL(time.Hour))
		viewer := watch(t, h, "")
		time.Sleep(29*time.Minute + 10*time.Second)
		soon := inSeconds.FindStringSubmatch(get(t, h, "/free?k=7265706f7274"))
		if len(soon) == 0 {
			t.Fatal("less than a minute before it is known the form does not say when")
		}
		n, err := strconv.Atoi(soon[1])
		must(t, err)
		time.Sleep(time.Duration(n) * time.Second)
		time.Sleep(4 * time.Second) // two looks at the database
		lacks(t, get(t, h, "/free?k=7265706f7274"), "although")
		viewer.leave()
		<-viewer.gone
	})
}

// TestFreeOnlyTheHoldThatWasSeen: the next holder is not hit by a form about the one before.
func TestFreeOnlyTheHoldThatWasSeen(t *testing.T) {
	s := newStore()
	h := newPage(t, s, ui.Options{MayFree: anybody, Refresh: 100 * time.Millisecond})
	c := client(t, s, "web-1")
	first := lock(t, c, "report")
	form := fill(t, get(t, h, "/free?k=7265706f7274"), "report")
	form.Set("alive", "1")
	must(t, first.Release(t.Context()))
	next := lock(t, client(t, s, "web-2"), "report")
	w := ask(h, "POST", "/free", form)
	if w.Code != http.StatusConflict {
		t.Errorf("POST: %d, want 409", w.Code)
	}
	contains(t, w.Body.String(), "report has changed hands", "Nothing was changed")
	held(t, s, next)
}

// TestMayFree: a page without MayFree only reads, and so it does for a user who may not.
func TestMayFree(t *testing.T) {
	s := newStore()
	lease := lock(t, client(t, s, "web-1"), "report")
	form := fill(t, get(t, newPage(t, s, ui.Options{MayFree: anybody}), "/free?k=7265706f7274"), "report")
	form.Set("alive", "1")
	nobody := func(*http.Request) (string, bool) { return "eve", false }
	for name, o := range map[string]ui.Options{"no MayFree": {}, "MayFree says no": {MayFree: nobody}} {
		h := newPage(t, s, o)
		for _, target := range []string{"/", "/key?k=7265706f7274"} {
			page := get(t, h, target)
			contains(t, page, "This page only reads.")
			lacks(t, page, "free?k=")
		}
		if w := ask(h, "GET", "/free?k=7265706f7274", nil); w.Code != http.StatusForbidden {
			t.Errorf("%s: the form: %d, want 403", name, w.Code)
		}
		if w := ask(h, "POST", "/free", form); w.Code != http.StatusForbidden {
			t.Errorf("%s: POST: %d, want 403", name, w.Code)
		}
	}
	held(t, s, lease)
}

// TestForeignForms: a form of another site ends nothing.
func TestForeignForms(t *testing.T) {
	s := newStore()
	h := newPage(t, s, ui.Options{MayFree: anybody, Refresh: 100 * time.Millisecond})
	lease := lock(t, client(t, s, "web-1"), "report")
	form := fill(t, get(t, h, "/free?k=7265706f7274"), "report")
	form.Set("alive", "1")
	for name, header := range map[string][2]string{
		"cross-site":     {"Sec-Fetch-Site", "cross-site"},
		"same-site":      {"Sec-Fetch-Site", "same-site"},
		"another origin": {"Origin", "https://evil.example"},
		"another port":   {"Origin", "http://localhost:81"},
		"a sandbox":      {"Origin", "null"},
	} {
		w := ask(h, "POST", "/free", form, func(r *http.Request) { r.Header.Set(header[0], header[1]) })
		if w.Code != http.StatusForbidden {
			t.Errorf("%s: %d, want 403", name, w.Code)
		}
	}
	for name, broken := range map[string]func(url.Values){
		"no token":  func(f url.Values) { f.Del("token") },
		"no hold":   func(f url.Values) { f.Del("hold") },
		"half hold": func(f url.Values) { f.Set("hold", "0102") },
	} {
		less, _ := url.ParseQuery(form.Encode())
		broken(less)
		if w := ask(h, "POST", "/free", less); w.Code != http.StatusBadRequest {
			t.Errorf("%s: %d, want 400", name, w.Code)
		}
	}
	forged := fmt.Sprintf("/key?k=7265706f7274&freed=%d", lease.Token())
	lacks(t, get(t, h, forged), "was ended")
	for name, headers := range map[string][3]string{
		"a stream":  {"cross-site", "cors", "empty"},
		"a fetch":   {"cross-site", "no-cors", "empty"},
		"a picture": {"same-site", "no-cors", "image"},
		"a frame":   {"cross-site", "navigate", "iframe"},
		"a link":    {"cross-site", "navigate", "document"},
		"the page":  {"same-origin", "cors", "empty"},
		"a user":    {"none", "navigate", "document"},
	} {
		fetch := func(r *http.Request) {
			for i, part := range []string{"Site", "Mode", "Dest"} {
				r.Header.Set("Sec-Fetch-"+part, headers[i])
			}
		}
		want := http.StatusForbidden
		if name == "a link" || name == "the page" || name == "a user" {
			want = http.StatusOK
		}
		for _, target := range []string{"/", "/keys.json", "/key?k=61"} {
			if w := ask(h, "GET", target, nil, fetch); w.Code != want {
				t.Errorf("%s of another site: GET %s: %d, want %d", name, target, w.Code, want)
			}
		}
	}
	large := url.Values{"k": {"7265706f7274"}, "x": {strings.Repeat("x", 1<<20)}}
	if w := ask(h, "POST", "/free", large); w.Code != http.StatusBadRequest {
		t.Errorf("a megabyte: %d, want 400", w.Code)
	}
	if w := ask(h, "GET", "/free?"+form.Encode(), nil); w.Code != http.StatusOK {
		t.Errorf("the form by GET: %d", w.Code)
	}
	held(t, s, lease)
	if w := ask(h, "POST", "/free", form, func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "same-origin") }); w.Code != http.StatusSeeOther {
		t.Errorf("the page's own form: %d", w.Code)
	}
}
