package ui

import (
	"crypto/sha256"
	"encoding/hex"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"
)

// policy lets the pages load what is theirs, and nothing else.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'self'; frame-ancestors 'none'; base-uri 'none'"

// protect sets the headers that every answer has, and refuses what comes from elsewhere.
func (h *Handler) protect(next http.Handler) http.Handler {
	origin := http.NewCrossOriginProtection()
	origin.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.message(w, r, http.StatusForbidden, "This request comes from another site",
			"A hold is ended from the page itself only. Nothing was changed.")
	}))
	next = origin.Handler(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		boundBody(w, r)
		header := w.Header()
		header.Set("Content-Security-Policy", policy)
		header.Set("X-Content-Type-Options", "nosniff")
		header.Set("Referrer-Policy", "no-referrer")
		header.Set("Cross-Origin-Opener-Policy", "same-origin")
		header.Set("Cross-Origin-Resource-Policy", "same-origin")
		header.Set("Cache-Control", "no-store")
		if !h.mayName(r.Host) {
			h.message(w, r, http.StatusMisdirectedRequest, "This page is not served under that name",
				"The name "+printable(hostName(r.Host))+" is not one of the program's Hosts (rowlock ui: --host).")
			return
		}
		if fromElsewhere(r) {
			h.message(w, r, http.StatusForbidden, "This request comes from another site", "Other sites can have a link to this page, and nothing else.")
			return
		}
		next.ServeHTTP(w, r)
	})
}

// fromElsewhere reports whether another site has a browser load something of the page otherwise than by a link that its
// user has followed: a picture, a script, a stream, a frame.
func fromElsewhere(r *http.Request) bool {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		return false // http.CrossOriginProtection looks at those
	}
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "same-origin", "none":
		return false
	}
	return r.Header.Get("Sec-Fetch-Mode") != "navigate" || r.Header.Get("Sec-Fetch-Dest") != "document"
}

// bodyTime is how long a request may take to send its body.
const bodyTime = 10 * time.Second

// boundBody sets the time at which the body of a request must have come. A request without one is left alone.
func boundBody(w http.ResponseWriter, r *http.Request) {
	if r.ContentLength != 0 {
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTime)) // what cannot, is no connection
	}
}

// mayName reports whether browsers may reach the page by the name in a Host header.
func (h *Handler) mayName(header string) bool {
	name := hostName(header)
	if isLoopback(name) {
		return true
	}
	for _, allowed := range h.o.Hosts {
		if allowed == "*" || strings.EqualFold(hostName(allowed), name) {
			return true
		}
	}
	return false
}

// hostName is a host without its port, and without the brackets of an IPv6 address.
func hostName(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
}

// isLoopback reports whether a name stands for this machine, whatever a DNS server says.
func isLoopback(name string) bool {
	if strings.EqualFold(name, "localhost") {
		return true
	}
	addr, err := netip.ParseAddr(name)
	return err == nil && addr.Unmap().IsLoopback()
}

// digest names a content.
func digest(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:6])
}
