package ui_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/memory"
	"github.com/rowlock/rowlock/ui"
)

// store is a memory store that counts its lists, and can fail or not answer.
type store struct {
	*memory.Store
	lists atomic.Int64
	fails atomic.Bool
	hangs atomic.Bool
	limit atomic.Int64 // of the last list
}

func newStore() *store { return &store{Store: memory.New()} }

func (s *store) List(ctx context.Context, prefix, after string, limit int) ([]driver.Info, error) {
	s.lists.Add(1)
	s.limit.Store(int64(limit))
	if s.hangs.Load() {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if s.fails.Load() {
		return nil, errors.New("the database has gone, and its password is hunter2")
	}
	return s.Store.List(ctx, prefix, after, limit)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// client is one of a program.
func client(t testing.TB, s driver.Store, owner string) *rowlock.Client {
	t.Helper()
	c, err := rowlock.New(s, rowlock.Options{Owner: owner, ReapInterval: -1})
	must(t, err)
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	return c
}

func lock(t testing.TB, c *rowlock.Client, key string, opts ...rowlock.Option) *rowlock.Lease {
	t.Helper()
	lease, err := c.TryAcquire(t.Context(), key, opts...)
	must(t, err)
	return lease
}

func newPage(t testing.TB, s driver.Store, o ui.Options) *ui.Handler {
	t.Helper()
	h, err := ui.New(s, o)
	must(t, err)
	t.Cleanup(func() { must(t, h.Close()) })
	return h
}

// anybody may free keys.
func anybody(*http.Request) (string, bool) { return "ada", true }

// ask sends a request to a page on this machine.
func ask(h http.Handler, method, target string, form url.Values, change ...func(*http.Request)) *httptest.ResponseRecorder {
	var body io.Reader
	if form != nil {
		body = strings.NewReader(form.Encode())
	}
	r := httptest.NewRequest(method, "http://localhost"+target, body)
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for _, f := range change {
		f(r)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// get is the text of a page.
func get(t testing.TB, h http.Handler, target string) string {
	t.Helper()
	w := ask(h, "GET", target, nil)
	if w.Code != http.StatusOK {
		t.Fatalf("GET %s: %d\n%s", target, w.Code, w.Body)
	}
	return w.Body.String()
}

func contains(t testing.TB, page string, wants ...string) {
	t.Helper()
	for _, want := range wants {
		if !strings.Contains(page, want) {
			t.Errorf("the page has no %q:\n%s", want, page)
		}
	}
}

func lacks(t testing.TB, page string, not ...string) {
	t.Helper()
	for _, want := range not {
		if strings.Contains(page, want) {
			t.Errorf("the page has %q:\n%s", want, page)
		}
	}
}

// update is a message of the stream.
type update struct {
	Summary, Problem, Next string
	None, Clock            string
	Old                    int64
	Whole                  bool
	Rows                   []struct{ ID, HTML string }
	Gone                   []string
	Losses, Needs          *string
}

// stream is a viewer with live updates. It is a http.ResponseWriter that works under a fake clock,
// as the network does not.
type stream struct {
	header http.Header
	status int
	leave  context.CancelFunc
	gone   chan struct{} // closed when the request has ended

	deadline *time.Timer

	mu   sync.Mutex
	text bytes.Buffer
	read int
}

func (s *stream) Header() http.Header    { return s.header }
func (s *stream) WriteHeader(status int) { s.status = status }
func (s *stream) Flush()                 {}

// SetWriteDeadline ends the request at that time, whether something is written then or not, as HTTP/2 does.
func (s *stream) SetWriteDeadline(at time.Time) error {
	if s.deadline != nil {
		s.deadline.Stop()
	}
	s.deadline = nil
	if !at.IsZero() {
		s.deadline = time.AfterFunc(time.Until(at), s.leave)
	}
	return nil
}
func (s *stream) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

// from makes a request one of another machine.
func from(address string) func(*http.Request) {
	return func(r *http.Request) { r.RemoteAddr = address }
}

// watch opens a stream.
func watch(t testing.TB, h http.Handler, query string, change ...func(*http.Request)) *stream {
	ctx, cancel := context.WithCancel(context.Background())
	s := &stream{header: http.Header{}, status: http.StatusOK, leave: cancel, gone: make(chan struct{})}
	go func() {
		defer close(s.gone)
		r := httptest.NewRequest("GET", "http://localhost/events"+query, nil).WithContext(ctx)
		for _, f := range change {
			f(r)
		}
		h.ServeHTTP(s, r)
	}()
	t.Cleanup(func() { cancel(); <-s.gone })
	return s
}

// updates are the messages since the last call.
func (s *stream) updates(t testing.TB) (list []update) {
	t.Helper()
	s.mu.Lock()
	text := s.text.String()[s.read:]
	s.read += len(text)
	s.mu.Unlock()
	lines := bufio.NewScanner(strings.NewReader(text))
	lines.Buffer(nil, 10<<20)
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue
		}
		var u update
		must(t, json.Unmarshal([]byte(data), &u))
		list = append(list, u)
	}
	return list
}
