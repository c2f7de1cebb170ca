package ui_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/rowlock/rowlock/ui"
)

// ended reports whether a stream is over, after all others have done what they can.
func (s *stream) ended() bool {
	select {
	case <-s.gone:
		return true
	default:
		return false
	}
}

// TestOneUserCannotTakeAllStreams: whoever comes gets live updates, at the cost of users with several, who are told apart by
// name or address.
func TestOneUserCannotTakeAllStreams(t *testing.T) {
	named := func(name string) func(*http.Request) { return func(r *http.Request) { r.SetBasicAuth(name, "x") } }
	for how, users := range map[string][2]func(*http.Request){
		"by name":         {named("ada"), named("bob")},
		"by address":      {from("10.0.0.1:80"), from("10.0.0.2:80")},
		"by IPv6 network": {from("[2001:db8:1:1::1]:80"), from("[2001:db8:1:2::1]:80")},
	} {
		t.Run(how, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				page := newPage(t, newStore(), ui.Options{})
				var h http.Handler = page
				if how == "by name" {
					h = ui.BasicAuth(func(_, _ string) bool { return true }, page)
				}
				var greedy []*stream
				for i := range 70 {
					user := users[0]
					if how == "by IPv6 network" {
						user = from(fmt.Sprintf("[2001:db8:1:1::%x]:80", i+1))
					}
					greedy = append(greedy, watch(t, h, "", user))
					time.Sleep(time.Millisecond)
				}
				for i, s := range greedy {
					if refused := i >= 64; s.ended() != refused {
						t.Errorf("stream %d of one user: ended %v, want %v", i, s.ended(), refused)
					}
				}
				var other []*stream
				for range 33 {
					other = append(other, watch(t, h, "", users[1]))
					time.Sleep(time.Millisecond)
				}
				for i, s := range other {
					if refused := i >= 32; s.ended() != refused {
						t.Errorf("stream %d of another user: ended %v, want %v", i, s.ended(), refused)
					}
				}
				for i, s := range greedy[:64] {
					if given := i < 32; s.ended() != given { // the oldest
						t.Errorf("stream %d of the first user: ended %v, want %v", i, s.ended(), given)
					}
				}
				must(t, page.Close())
				for _, s := range append(greedy, other...) {
					<-s.gone
				}
				if n := watch(t, h, "", users[0]); !n.ended() {
					<-n.gone // closed
				}
			})
		})
	}
}

// TestOneUserCannotTakeAllPrefixes: of a database with more keys than a poll reads, one user who looks at many prefixes leaves
// some to others.
func TestOneUserCannotTakeAllPrefixes(t *testing.T) {
	s := newStore()
	c := client(t, s, "web")
	for i := range 30 {
		lock(t, c, fmt.Sprintf("%c/%02d", 'a'+i/3, i))
	}
	h := newPage(t, s, ui.Options{Keys: 10, Refresh: time.Hour})
	get(t, h, "/")
	codes := func(address string) (ok int) {
		for letter := 'a'; letter < 'k'; letter++ {
			for _, more := range []string{"", "/"} {
				if w := ask(h, "GET", "/?prefix="+string(letter)+more, nil, from(address)); w.Code == http.StatusOK {
					ok++
				}
			}
		}
		return ok
	}
	if n := codes("10.0.0.1:80"); n != 8 {
		t.Errorf("one user looks at %d prefixes, want 8", n)
	}
	if n := codes("10.0.0.2:80"); n != 16 { // its own, and those that are looked at anyway
		t.Errorf("the next user looks at %d prefixes, want 16", n)
	}
}

// TestBodyThatDoesNotCome: a request whose body comes slowly is ended.
func TestBodyThatDoesNotCome(t *testing.T) {
	page := newPage(t, newStore(), ui.Options{MayFree: anybody})
	for name, h := range map[string]http.Handler{
		"the page":    page,
		"a password":  ui.BasicAuth(func(_, _ string) bool { return false }, page),
		"secret link": ui.SecretLink("s3cret", page),
	} {
		for _, method := range []string{"GET", "POST"} {
			w := &deadlines{ResponseRecorder: httptest.NewRecorder()}
			h.ServeHTTP(w, httptest.NewRequest(method, "http://localhost/free", strings.NewReader("typed=report")))
			if w.read.IsZero() || time.Until(w.read) > 10*time.Second {
				t.Errorf("%s, %s: the body must have come by %v, want in 10 s", name, method, w.read)
			}
		}
		w := &deadlines{ResponseRecorder: httptest.NewRecorder()}
		h.ServeHTTP(w, httptest.NewRequest("GET", "http://localhost/", nil))
		if !w.read.IsZero() {
			t.Errorf("%s: a request without a body has a deadline, which would end a stream", name)
		}
	}
}

// deadlines notes until when a request is read.
type deadlines struct {
	*httptest.ResponseRecorder
	read time.Time
}

func (d *deadlines) SetReadDeadline(t time.Time) error { d.read = t; return nil }

// TestStreamOutlivesTimeouts: a server's ReadTimeout and WriteTimeout do not end the stream, nor does its own deadline for what
// it sends, on HTTP/2 and where polls are rare.
func TestStreamOutlivesTimeouts(t *testing.T) {
	server := httptest.NewUnstartedServer(newPage(t, newStore(), ui.Options{Refresh: 100 * time.Millisecond}))
	server.Config.ReadTimeout, server.Config.WriteTimeout = 200*time.Millisecond, 200*time.Millisecond
	server.Start()
	t.Cleanup(server.Close)
	answer, err := server.Client().Get(server.URL + "/events")
	must(t, err)
	defer answer.Body.Close()
	part, messages := make([]byte, 1<<16), 0
	for messages < 10 {
		n, err := answer.Body.Read(part)
		if err != nil {
			t.Fatalf("after %d messages: %v", messages, err)
		}
		messages += strings.Count(string(part[:n]), "data: ")
	}
	bubble(t, func(t *testing.T) {
		v := watch(t, newPage(t, newStore(), ui.Options{Refresh: 10 * time.Minute}), "")
		time.Sleep(time.Hour)
		if v.ended() {
			t.Error("the stream was ended between two polls")
		}
		v.leave()
		<-v.gone
	})
}
