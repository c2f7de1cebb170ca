package ui

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"net"
	"net/http"
	"path"
	"strconv"
	"strings"

	"github.com/rowlock/rowlock/driver"
)

// userKey is the context key of the user whom BasicAuth or SecretLink has let through.
type userKey struct{}

// User is who made a request that [BasicAuth] or [SecretLink] has let through, for Options.MayFree.
// ok is false for any other request.
func User(r *http.Request) (name string, ok bool) {
	name, ok = r.Context().Value(userKey{}).(string)
	return name, ok
}

func withUser(r *http.Request, name string) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), userKey{}, name))
}

// BasicAuth lets requests through that bring a name and a password for which check returns true; others, and those
// with an empty password, get 401. check is best slow, as bcrypt is, and takes as long for a name that it does not
// know: it is called for two requests at a time at most, and after it has returned true not again for a minute.
// The password travels with each request: serve it by TLS, or on this machine only.
func BasicAuth(check func(name, password string) bool, next http.Handler) http.Handler {
	passed := newPassed(check)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		boundBody(w, r)
		name, password, _ := r.BasicAuth()
		if password == "" || !passed.ok(r.Context(), name, password) {
			w.Header().Set("WWW-Authenticate", `Basic realm="locks", charset="UTF-8"`)
			http.Error(w, "a name and a password are needed", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, withUser(r, name))
	})
}

// SecretLink lets requests through of browsers that have once opened a link which ends in
// ?secret=SECRET; others get 401. It is for a page on this machine, which other users of the machine
// reach too: the link is printed where only its user sees it. The secret is kept in a cookie
// until the browser is closed, one for each port, and the link is replaced by one without it. An empty secret lets
// nobody through.
func SecretLink(secret string, next http.Handler) http.Handler {
	want := sha256.Sum256([]byte(secret))
	is := func(text string) bool {
		got := sha256.Sum256([]byte(text))
		return subtle.ConstantTimeCompare(want[:], got[:]) == 1 && secret != ""
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		boundBody(w, r)
		cookie := cookieName(r)
		if c, err := r.Cookie(cookie); err == nil && is(c.Value) {
			next.ServeHTTP(w, withUser(r, linkUser))
			return
		}
		if is(r.URL.Query().Get("secret")) && r.Method == http.MethodGet {
			http.SetCookie(w, &http.Cookie{Name: cookie, Value: secret, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: r.TLS != nil})
			w.Header().Set("Referrer-Policy", "no-referrer")
			_, page := path.Split(r.URL.EscapedPath())
			w.Header().Set("Location", "./"+page)
			w.WriteHeader(http.StatusSeeOther)
			return
		}
		http.Error(w, "open the link that the program has printed: it ends in ?secret=…", http.StatusUnauthorized)
	})
}

// linkUser is the name of all users whom SecretLink lets through.
const linkUser = "somebody with the link"

// cookieName has the port by which a browser reaches the page: browsers send cookies to all ports of a host, and two
// pages would take each other's.
func cookieName(r *http.Request) string {
	const name = "rowlock-ui"
	if _, port, err := net.SplitHostPort(r.Host); err == nil {
		if n, err := strconv.ParseUint(port, 10, 16); err == nil {
			return name + "-" + strconv.FormatUint(n, 10)
		}
	}
	return name
}

// Listen opens a TCP address for a page, host:port. An address that other machines reach is refused
// with ErrInvalid unless protected is true: then whoever serves on the listener lets only known users
// through, for example by [BasicAuth].
func Listen(address string, protected bool) (net.Listener, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("listen on %q: %w: use host:port, as 127.0.0.1:8990", address, driver.ErrInvalid)
	}
	if !protected && !isLoopback(host) {
		whom := "other machines reach it"
		if host == "" {
			whom = "without a host it is that of every network"
		}
		return nil, fmt.Errorf("listen on %q: %w: %s, and nobody is asked for a password: use 127.0.0.1:%s, or let users log in", address, driver.ErrInvalid, whom, port)
	}
	if strings.EqualFold(host, "localhost") { // which a resolver may give another address
		address = net.JoinHostPort("127.0.0.1", port)
	}
	return net.Listen("tcp", address)
}
