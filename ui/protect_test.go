package ui_test

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/ui"
)

// TestHeaders: every answer, errors too, has the strict policy, and only assets are kept by browsers.
func TestHeaders(t *testing.T) {
	h := newPage(t, newStore(), ui.Options{MayFree: anybody})
	answers := map[string]http.ResponseWriter{
		"a wrong host": ask(h, "GET", "/", nil, func(r *http.Request) { r.Host = "evil.example" }),
		"a POST":       ask(h, "POST", "/free", url.Values{"k": {"61"}}),
	}
	for _, target := range []string{"/", "/key?k=61", "/free?k=61", "/keys.json", "/none", "/key"} {
		answers[target] = ask(h, "GET", target, nil)
	}
	stream := watch(t, h, "?")
	stream.leave()
	<-stream.gone
	answers["events"] = stream
	for name, w := range answers {
		header := w.Header()
		policy := header.Get("Content-Security-Policy")
		for _, part := range []string{"default-src 'none'", "script-src 'self'", "style-src 'self'", "form-action 'self'", "frame-ancestors 'none'", "base-uri 'none'"} {
			if !strings.Contains(policy, part) {
				t.Errorf("%s: the policy %q lacks %s", name, policy, part)
			}
		}
		if strings.Contains(policy, "unsafe") || header.Get("X-Content-Type-Options") != "nosniff" || header.Get("Referrer-Policy") != "no-referrer" || header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: headers %v", name, header)
		}
		if page, ok := w.(*httptest.ResponseRecorder); ok && strings.Contains(page.Body.String(), "style=") {
			t.Errorf("%s has a style that the policy forbids", name)
		}
	}
	page := get(t, h, "/")
	_, after, _ := strings.Cut(page, `src="`)
	script, _, _ := strings.Cut(after, `"`)
	if w := ask(h, "GET", "/"+script, nil); w.Code != 200 || !strings.Contains(w.Header().Get("Cache-Control"), "immutable") || w.Header().Get("Content-Type") != "text/javascript; charset=utf-8" {
		t.Errorf("the script %q: %d, %v", script, w.Code, w.Header())
	}
}

// TestHost: a request that names another host than this machine or one of Hosts is refused, so that no
// site can reach the page under its own name.
func TestHost(t *testing.T) {
	plain, named := newPage(t, newStore(), ui.Options{}), newPage(t, newStore(), ui.Options{Hosts: []string{"locks.example.com", "10.1.2.3"}})
	anyHost := newPage(t, newStore(), ui.Options{Hosts: []string{"*"}})
	for _, c := range []struct {
		host               string
		plain, named, star int
	}{
		{"localhost", 200, 200, 200},
		{"LOCALHOST:8990", 200, 200, 200},
		{"127.0.0.1:8990", 200, 200, 200},
		{"127.8.9.1", 200, 200, 200},
		{"[::1]:8990", 200, 200, 200},
		{"[::1]", 200, 200, 200},
		{"locks.example.com", 421, 200, 200},
		{"Locks.Example.com:443", 421, 200, 200},
		{"10.1.2.3:80", 421, 200, 200},
		{"evil.example", 421, 421, 200},
		{"localhost.evil.example", 421, 421, 200},
		{"127.0.0.1.evil.example", 421, 421, 200},
		{"10.1.2.4", 421, 421, 200},
		{"", 421, 421, 200},
		{"<script>", 421, 421, 200},
	} {
		for h, want := range map[*ui.Handler]int{plain: c.plain, named: c.named, anyHost: c.star} {
			if w := ask(h, "GET", "/", nil, func(r *http.Request) { r.Host = c.host }); w.Code != want {
				t.Errorf("host %q: %d, want %d", c.host, w.Code, want)
			}
		}
	}
}

// TestListen: an address that other machines reach is refused unless users log in.
func TestListen(t *testing.T) {
	for address, ok := range map[string]bool{
		"127.0.0.1:0": true, "localhost:0": true, "[::1]:0": true,
		":0": false, "0.0.0.0:0": false, "[::]:0": false, "10.1.2.3:0": false, "locks.example.com:0": false,
		"127.0.0.1": false, "": false,
	} {
		l, err := ui.Listen(address, false)
		if l != nil {
			must(t, l.Close())
		}
		var noNetwork *net.OpError // a machine may have no ::1
		switch {
		case ok && err != nil && !errors.As(err, &noNetwork):
			t.Errorf("%q: %v", address, err)
		case !ok && !errors.Is(err, driver.ErrInvalid):
			t.Errorf("%q: %v, want ErrInvalid", address, err)
		}
	}
	l, err := ui.Listen("0.0.0.0:0", true)
	must(t, err)
	must(t, l.Close())
	if _, err := ui.Listen("0.0.0.0:8990", false); !strings.Contains(err.Error(), "127.0.0.1:8990") {
		t.Errorf("the error does not say what would be right: %v", err)
	}
}

// TestBasicAuth: only known users with their own passwords get through, and the page knows who they are.
func TestBasicAuth(t *testing.T) {
	passwords := map[string]string{"ada": "lovelace", "bob": "builder", "nobody": ""}
	check := func(name, password string) bool { want, ok := passwords[name]; return ok && password == want }
	h := ui.BasicAuth(check, newPage(t, newStore(), ui.Options{MayFree: ui.User}))
	for _, c := range []struct {
		name, password string
		want           int
	}{
		{"ada", "lovelace", 200}, {"bob", "builder", 200},
		{"ada", "builder", 401}, {"ada", "", 401}, {"", "", 401}, {"eve", "", 401}, {"nobody", "", 401}, {"eve", "x", 401},
	} {
		w := ask(h, "GET", "/", nil, func(r *http.Request) { r.SetBasicAuth(c.name, c.password) })
		if w.Code != c.want {
			t.Errorf("%s:%s: %d, want %d", c.name, c.password, w.Code, c.want)
		}
		if w.Code == 200 {
			contains(t, w.Body.String(), "You can free keys, as "+c.name)
		}
	}
	if w := ask(h, "GET", "/", nil); w.Code != 401 || w.Header().Get("WWW-Authenticate") == "" {
		t.Errorf("without a name: %d, %v", w.Code, w.Header())
	}
}

// TestBasicAuthChecks: a password that was right is not checked again for a minute, a wrong one each time, and no more than
// two at once: checks are slow on purpose.
func TestBasicAuthChecks(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var checks, now, most atomic.Int64
		check := func(name, password string) bool {
			checks.Add(1)
			most.Store(max(most.Load(), now.Add(1)))
			time.Sleep(100 * time.Millisecond)
			now.Add(-1)
			return name == "ada" && password == "lovelace"
		}
		page := newPage(t, newStore(), ui.Options{})
		h := ui.BasicAuth(check, page)
		login := func(name, password string) int {
			return ask(h, "GET", "/", nil, func(r *http.Request) { r.SetBasicAuth(name, password) }).Code
		}
		count := func(want int64, what string) {
			t.Helper()
			if n := checks.Swap(0); n != want {
				t.Errorf("%s: %d checks, want %d", what, n, want)
			}
		}
		for range 10 {
			if code := login("ada", "lovelace"); code != 200 {
				t.Errorf("the right password: %d", code)
			}
		}
		count(1, "ten requests with the right password")
		for _, wrong := range [][2]string{{"ada", "Lovelace"}, {"adal", "ovelace"}, {"ada", "Lovelace"}} {
			if code := login(wrong[0], wrong[1]); code != 401 {
				t.Errorf("%s:%s: %d", wrong[0], wrong[1], code)
			}
		}
		count(3, "three requests with wrong passwords")
		time.Sleep(2 * time.Minute)
		login("ada", "lovelace")
		count(1, "after two minutes")
		most.Store(0)
		var wrong sync.WaitGroup
		for i := range 20 {
			wrong.Go(func() { login("ada", fmt.Sprint(i)) })
		}
		wrong.Wait()
		count(20, "twenty wrong passwords at once")
		if n := most.Load(); n != 2 {
			t.Errorf("%d checks at once, want 2", n)
		}
	})
}

// TestSecretLink: the link lets a browser in, and its cookie does from then on.
func TestSecretLink(t *testing.T) {
	h := ui.SecretLink("s3cret", newPage(t, newStore(), ui.Options{MayFree: ui.User}))
	for _, target := range []string{"/", "/?secret=", "/?secret=other"} {
		if w := ask(h, "GET", target, nil); w.Code != 401 {
			t.Errorf("GET %s: %d, want 401", target, w.Code)
		}
	}
	w := ask(h, "GET", "//evil.example/?secret=s3cret", nil)
	cookies := w.Result().Cookies()
	if w.Code != 303 || w.Header().Get("Location") != "./" || len(cookies) != 1 || !cookies[0].HttpOnly || cookies[0].SameSite != http.SameSiteStrictMode {
		t.Fatalf("the link: %d to %q, cookies %v", w.Code, w.Header().Get("Location"), cookies)
	}
	if w := ask(h, "GET", "/", nil, func(r *http.Request) { r.AddCookie(cookies[0]) }); w.Code != 200 {
		t.Errorf("with the cookie: %d", w.Code)
	}
	if w := ask(h, "GET", "/", nil, func(r *http.Request) { r.AddCookie(&http.Cookie{Name: cookies[0].Name, Value: "other"}) }); w.Code != 401 {
		t.Errorf("with another cookie: %d", w.Code)
	}
	// Browsers send a cookie to all ports of a host: that of another page is not this one's, and stays.
	names := map[string]string{"localhost": "rowlock-ui", "localhost:8990": "rowlock-ui-8990", "127.0.0.1:8991": "rowlock-ui-8991", "[::1]:8992": "rowlock-ui-8992", "localhost:x=1": "rowlock-ui"}
	for host, want := range names {
		w := ask(h, "GET", "/?secret=s3cret", nil, func(r *http.Request) { r.Host = host })
		if cookies := w.Result().Cookies(); len(cookies) != 1 || cookies[0].Name != want {
			t.Errorf("host %s: cookies %v, want %s", host, cookies, want)
		}
	}
	if w := ask(ui.SecretLink("", h), "GET", "/?secret=", nil); w.Code != 401 {
		t.Errorf("an empty secret lets everybody in: %d", w.Code)
	}
}
