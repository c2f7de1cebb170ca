package ui_test

import (
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

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
	h := ui.BasicAuth(passwords, newPage(t, newStore(), ui.Options{MayFree: ui.User}))
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
			contains(t, w.Body.String(), "You may free keys here, as "+c.name)
		}
	}
	if w := ask(h, "GET", "/", nil); w.Code != 401 || w.Header().Get("WWW-Authenticate") == "" {
		t.Errorf("without a name: %d, %v", w.Code, w.Header())
	}
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
	if w := ask(ui.SecretLink("", h), "GET", "/?secret=", nil); w.Code != 401 {
		t.Errorf("an empty secret lets everybody in: %d", w.Code)
	}
}
