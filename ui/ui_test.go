package ui_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/ui"
)

// TestPage: who has what is in the page itself, without a script, and every key has a page.
func TestPage(t *testing.T) {
	s := newStore()
	lease := lock(t, client(t, s, "web-1"), "report")
	lock(t, client(t, s, "web-2"), "users/7", rowlock.Shared())
	lock(t, client(t, s, "web-3"), "gone").Release(t.Context())
	h := newPage(t, s, ui.Options{Title: "Locks of the shop"})
	list := get(t, h, "/")
	contains(t, list, "<title>Locks of the shop</title>", `href="key?k=7265706f7274"`, "report", "web-1",
		`<span class="badge held">held</span>`, "by 1 reader", "<strong>2</strong> held", "3 keys in all, with free ones.", `<meter min="0" max="30"`,
		`<noscript><meta http-equiv="refresh" content="5"></noscript>`, "This page only reads.", "<caption", `scope="col"`, `scope="row"`)
	lacks(t, list, "gone", "free?k", fmt.Sprint(lease.Token()), "<h2 id=\"needs-head\">")
	contains(t, get(t, h, "/?all=1"), "gone", `<span class="badge free">free</span>`)
	users := get(t, h, "/?prefix=users")
	contains(t, users, "users/7", "begin with <bdi>users</bdi>")
	lacks(t, users, "web-1")
	contains(t, get(t, h, "/key?k=7265706f7274"), "<h1>Key <bdi>report</bdi></h1>", "web-1", fmt.Sprint(lease.Token()))
	contains(t, get(t, h, "/key?k=6e6f"), "<h1>Key <bdi>no</bdi></h1>", `<span class="badge free">free</span>`)
	contains(t, get(t, h, "/?still=1"), "Reload by itself")
	lacks(t, get(t, h, "/?still=1"), "http-equiv")
	contains(t, get(t, h, "/keys.json?prefix=rep"), `"key":"report","state":"held","owner":"web-1"`)
	for _, wrong := range []string{"/key", "/key?k=xyz", "/key?k=" + strings.Repeat("aa", 256), "/?after=1", "/events?k=1"} {
		if w := ask(h, "GET", wrong, nil); w.Code != http.StatusBadRequest {
			t.Errorf("GET %s: %d, want 400", wrong, w.Code)
		}
	}
	if w := ask(h, "GET", "/nothing", nil); w.Code != http.StatusNotFound {
		t.Errorf("a page that does not exist: %d", w.Code)
	}
	if w := ask(h, "DELETE", "/", nil); w.Code != http.StatusMethodNotAllowed || w.Header().Get("Allow") == "" {
		t.Errorf("DELETE: %d, Allow %q", w.Code, w.Header().Get("Allow"))
	}
}

// TestPrefixOfThePage: a page about some keys shows no others, whatever is asked for.
func TestPrefixOfThePage(t *testing.T) {
	s := newStore()
	c := client(t, s, "web")
	lock(t, c, "mine/1")
	lock(t, c, "other")
	h := newPage(t, s, ui.Options{Prefix: "mine/", MayFree: anybody})
	for _, target := range []string{"/", "/?prefix=o", "/?prefix=", "/?all=1", "/keys.json", "/keys.json?prefix=other"} {
		lacks(t, get(t, h, target), ">other<", `"other"`)
	}
	contains(t, get(t, h, "/"), "mine/1")
	for _, target := range []string{"/key?k=6f74686572", "/free?k=6f74686572"} {
		if w := ask(h, "GET", target, nil); w.Code != http.StatusNotFound {
			t.Errorf("GET %s: %d, want 404", target, w.Code)
		}
	}
	contains(t, get(t, h, "/keys.json?k=6f74686572"), `"state":"free"`)
}

// TestMounted: the page works under any path, with and without http.StripPrefix: all links are relative, and lead to a page.
func TestMounted(t *testing.T) {
	s := newStore()
	lock(t, client(t, s, "web"), "report")
	h := newPage(t, s, ui.Options{MayFree: anybody})
	mux := http.NewServeMux()
	mux.Handle("/locks/", http.StripPrefix("/locks", h))
	mux.Handle("/admin/locks/", h)
	link := regexp.MustCompile(`(?:href|src)="([^"]*)"`)
	for _, base := range []string{"/locks/", "/admin/locks/"} {
		from, err := url.Parse(base)
		must(t, err)
		seen := map[string]bool{base: true}
		for queue := []string{base}; len(queue) > 0; queue = queue[1:] {
			w := ask(mux, "GET", queue[0], nil)
			if w.Code != http.StatusOK {
				t.Errorf("GET %s: %d", queue[0], w.Code)
				continue
			}
			if !strings.HasPrefix(w.Header().Get("Content-Type"), "text/html") {
				continue
			}
			for _, m := range link.FindAllStringSubmatch(w.Body.String(), -1) {
				if strings.HasPrefix(m[1], "#") {
					continue
				}
				at, err := url.Parse(queue[0])
				must(t, err)
				if strings.HasPrefix(m[1], "https://github.com/rowlock/rowlock/blob/main/docs/runbook.md#") {
					continue
				}
				to, err := at.Parse(strings.ReplaceAll(m[1], "&amp;", "&"))
				must(t, err)
				if !strings.HasPrefix(to.Path, from.Path) {
					t.Errorf("%s has a link to %s: it leaves %s", queue[0], m[1], base)
				}
				if next := to.RequestURI(); !seen[next] {
					seen[next] = true
					queue = append(queue, next)
				}
			}
		}
		if len(seen) < 7 {
			t.Errorf("only %d pages below %s: %v", len(seen), base, seen)
		}
	}
	bare := http.StripPrefix("/x/locks", h)
	if w := ask(bare, "GET", "/x/locks?all=1", nil); w.Code != http.StatusMovedPermanently || w.Header().Get("Location") != "./locks/" {
		t.Errorf("without the slash: %d to %q", w.Code, w.Header().Get("Location"))
	}
}

// nasty are keys that try to be more than text.
var nasty = []string{
	"<script>alert(1)</script>", `"><img src=x onerror=alert(1)>`, `' onmouseover='alert(1)`, "\xff\xfe\x00", "a\nb\tc\r",
	strings.Repeat("k", 255), "\u202egpj.exe", "שלום", "{{.Title}}", `back\slash`, "&lt;b&gt;", "</template><script>alert(2)</script>",
	"../../etc/passwd", "javascript:alert(1)", " space ", "😀", "<!--", "`${alert(1)}`", "\u2028", "x#y?z&w=%41",
}

// TestNastyKeys: keys and owners are text everywhere, and each has a page that is about it.
func TestNastyKeys(t *testing.T) {
	s := newStore()
	h := newPage(t, s, ui.Options{MayFree: anybody})
	for i, key := range nasty {
		lock(t, client(t, s, fmt.Sprintf("<i>%d</i>%.200s", i, key)), key)
	}
	pages := map[string]string{"list": get(t, h, "/")}
	events := watch(t, h, "")
	for pages["events"] == "" {
		time.Sleep(time.Millisecond)
		for _, u := range events.updates(t) {
			for _, r := range u.Rows {
				pages["events"] += r.HTML
			}
		}
	}
	for _, key := range nasty {
		id := fmt.Sprintf("%x", key)
		contains(t, pages["list"], `href="key?k=`+id+`"`)
		pages[key] = get(t, h, "/key?k="+id)
		contains(t, pages[key], `data-id="`+id+`"`, "badge held")
		pages["free "+key] = get(t, h, "/free?k="+id)
	}
	lacks(t, get(t, h, "/keys.json"), "<script", "<img", "\u2028")
	contains(t, pages["list"], `<bdi>\xff\xfe\x00</bdi>`, `<bdi>a\x0ab\x09c\x0d</bdi>`, `\xe2\x80\xaegpj.<wbr>exe</bdi>`, "<bdi>שלום</bdi>",
		"<bdi>{{.Title}}</bdi>", `<bdi>back\x5cslash</bdi>`, "&lt;script&gt;alert(1)&lt;/<wbr>script&gt;", "&amp;lt;b&amp;gt;")
	for name, page := range pages {
		for _, bad := range []string{"<script>alert", "<img", "<i>", "<!--", "\u202e", "\u2028"} {
			if strings.Contains(page, bad) {
				t.Errorf("%q: the page has %q", name, bad)
			}
		}
	}
}

// TestTenThousandKeys: a list of 10 000 keys is read by one statement, and shown in pages which have each key once.
func TestTenThousandKeys(t *testing.T) {
	keys := 10_000
	if testing.Short() {
		keys = 2_000
	}
	s := newStore()
	var reqs []driver.Request
	for i := range keys {
		reqs = append(reqs, driver.Request{Key: fmt.Sprintf("key-%05d", i), ID: driver.HoldID{1, byte(i), byte(i >> 8)}, Owner: "web", TTL: time.Hour})
	}
	for i := 0; i < len(reqs); i += 1000 {
		_, err := s.Acquire(t.Context(), reqs[i:i+1000])
		must(t, err)
	}
	h := newPage(t, s, ui.Options{Refresh: time.Hour})
	row := regexp.MustCompile(`<tr role="row" data-id="(\w+)">`)
	more := regexp.MustCompile(`<p id="more"><a href="([^"]*)"`)
	seen := map[string]int{}
	pages := 0
	for next := "/"; next != ""; {
		page := get(t, h, next)
		pages++
		for _, m := range row.FindAllStringSubmatch(page, -1) {
			seen[m[1]]++
		}
		next = ""
		if m := more.FindStringSubmatch(page); m != nil {
			next = "/" + strings.ReplaceAll(m[1], "&amp;", "&")
		}
	}
	if len(seen) != keys || pages != keys/200 {
		t.Errorf("%d keys on %d pages, want %d on %d", len(seen), pages, keys, keys/200)
	}
	for id, n := range seen {
		if n != 1 {
			t.Fatalf("key %s is shown %d times", id, n)
		}
	}
	if n := s.lists.Load(); n != 1 {
		t.Errorf("%d statements for %d pages within one refresh, want 1", n, pages)
	}
	contains(t, get(t, h, "/"), fmt.Sprintf("<strong>%d</strong> held", keys), fmt.Sprintf("%d keys in all, with free ones.", keys))
}

// TestMoreKeysThanAPollReads: the page says so, and finds keys by their beginning.
func TestMoreKeysThanAPollReads(t *testing.T) {
	s := newStore()
	c := client(t, s, "web")
	for i := range 30 {
		lock(t, c, fmt.Sprintf("%c/%02d", 'a'+i/3, i))
	}
	h := newPage(t, s, ui.Options{Keys: 10, Refresh: time.Hour, MayFree: anybody})
	contains(t, get(t, h, "/?prefix=j"), "j/29", "j/28", "j/27")
	contains(t, get(t, h, "/"), "These are the first 10 keys; there are more", "a/00")
	if limit := s.limit.Load(); limit != 11 {
		t.Errorf("a poll reads %d keys, want 11", limit)
	}
	contains(t, get(t, h, "/key?k=692f3236"), "<h1>Key <bdi>i/26</bdi></h1>", "badge held")
	for _, letter := range "cdefgh" {
		contains(t, get(t, h, "/?prefix="+string(letter)), string(letter)+"/")
	}
	if w := ask(h, "GET", "/?prefix=b", nil); w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" {
		t.Errorf("the ninth prefix: %d, want 503", w.Code)
	}
}

// TestDatabaseFails: the page says that what it shows is old, and not what the database's error says.
func TestDatabaseFails(t *testing.T) {
	s := newStore()
	lock(t, client(t, s, "web"), "report")
	h := newPage(t, s, ui.Options{Refresh: 100 * time.Millisecond})
	get(t, h, "/")
	s.fails.Store(true)
	page := ""
	for !strings.Contains(page, "has not answered since") {
		page = get(t, h, "/")
		time.Sleep(5 * time.Millisecond)
	}
	contains(t, page, "report")
	lacks(t, page, "hunter2")
	if w := ask(h, "GET", "/keys.json", nil); w.Code != http.StatusBadGateway {
		t.Errorf("keys.json: %d, want 502", w.Code)
	}
	s.fails.Store(false)
	for strings.Contains(page, "has not answered since") {
		page = get(t, h, "/")
		time.Sleep(5 * time.Millisecond)
	}
	fresh := newStore()
	fresh.fails.Store(true)
	contains(t, get(t, newPage(t, fresh, ui.Options{}), "/"), "The database does not answer")
}

// TestNew: what cannot work is refused, with the value.
func TestNew(t *testing.T) {
	s := newStore()
	type only struct{ driver.Store }
	for name, c := range map[string]struct {
		store driver.Store
		o     ui.Options
		want  error
	}{
		"a store that cannot list":       {only{s}, ui.Options{}, driver.ErrNotSupported},
		"no store":                       {nil, ui.Options{}, driver.ErrNotSupported},
		"a nil store":                    {(*store)(nil), ui.Options{}, driver.ErrInvalid},
		"a store that ends no hold":      {struct{ lister }{s}, ui.Options{MayFree: anybody}, driver.ErrNotSupported},
		"a refresh of a millisecond":     {s, ui.Options{Refresh: time.Millisecond}, driver.ErrInvalid},
		"a negative number of keys":      {s, ui.Options{Keys: -1}, driver.ErrInvalid},
		"a negative number of rows":      {s, ui.Options{Rows: -1}, driver.ErrInvalid},
		"a prefix longer than any key":   {s, ui.Options{Prefix: strings.Repeat("k", 256)}, driver.ErrInvalid},
		"a host with a newline":          {s, ui.Options{Hosts: []string{"locks.example", "page.example\n"}}, driver.ErrInvalid},
		"a store that only lists, reads": {struct{ lister }{s}, ui.Options{}, nil},
	} {
		h, err := ui.New(c.store, c.o)
		if !errors.Is(err, c.want) || (err == nil) != (h != nil) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

// lister is a store that can list.
type lister interface {
	driver.Store
	driver.Lister
}
