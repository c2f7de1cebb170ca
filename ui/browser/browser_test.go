package browser_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/testserver"
	"github.com/rowlock/rowlock/memory"
	"github.com/rowlock/rowlock/ui"
	"github.com/rowlock/rowlock/ui/browser"
)

var chromium context.Context // whose tabs the tests use; nil: there is none
var missing error

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	program, err := browser.Find(ctx, os.Stderr)
	if err != nil {
		missing = err
		return m.Run()
	}
	var stop func()
	if chromium, stop, missing = program.Start(ctx); missing == nil {
		defer stop()
	}
	return m.Run()
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// site is a page in a tab of its own, about a store of its own.
type site struct {
	t     *testing.T
	store *fallible
	url   string
	tab   context.Context
}

// fallible is a store whose lists can fail.
type fallible struct {
	*memory.Store
	fails atomic.Bool
}

func (s *fallible) List(ctx context.Context, prefix, after string, limit int) ([]driver.Info, error) {
	if s.fails.Load() {
		return nil, errors.New("the database has gone")
	}
	return s.Store.List(ctx, prefix, after, limit)
}

// open shows a page. What the browser complains of fails the test: errors of the console, violations of the
// policy, requests that fail, dialogs.
func open(t *testing.T, o ui.Options) *site {
	t.Helper()
	if missing != nil {
		if errors.Is(missing, browser.ErrNone) && os.Getenv("ROWLOCK_TEST_MUST_RUN") == "" {
			t.Skip(missing)
		}
		t.Fatal(missing)
	}
	s := &site{t: t, store: &fallible{Store: memory.New()}}
	h, err := ui.New(s.store, o)
	must(t, err)
	mux := http.NewServeMux()
	mux.Handle("/locks/", http.StripPrefix("/locks", h))
	server := httptest.NewServer(mux)
	s.url = server.URL + "/locks/"
	tab, leave := chromedp.NewContext(chromium, chromedp.WithNewBrowserContext())
	tab, cancel := context.WithTimeout(tab, testserver.Patience(t))
	s.tab = tab
	t.Cleanup(func() {
		cancel()
		leave()
		_ = h.Close()
		server.Close()
	})
	s.do(chromedp.Navigate("about:blank"))
	s.complain()
	return s
}

// complain collects what the browser has to complain of, and fails the test at its end.
func (s *site) complain() {
	var mu sync.Mutex
	var complaints []string
	note := func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		complaints = append(complaints, fmt.Sprintf(format, args...))
	}
	console := chromedp.Console(s.tab)
	failed := chromedp.Events(s.tab, network.LoadingFailed)
	answers := chromedp.Events(s.tab, network.ResponseReceived)
	dialogs := chromedp.Events(s.tab, page.JavascriptDialogOpening)
	go func() {
		for m, err := range console {
			if err == nil && (m.Type == chromedp.ConsoleError || m.Type == chromedp.ConsoleWarning || m.Type == chromedp.ConsoleException) {
				note("console: %s: %s (%s:%d)", m.Type, m.Text, m.URL, m.Line)
			}
		}
	}()
	go func() {
		for e, err := range failed {
			if err == nil && !e.Canceled && e.ErrorText != "net::ERR_ABORTED" { // a stream that the page has closed
				note("request: %s", e.ErrorText)
			}
		}
	}()
	go func() {
		for e, err := range answers {
			if err == nil && e.Response.Status >= 400 {
				note("request: %d for %s", e.Response.Status, e.Response.URL)
			}
		}
	}()
	go func() {
		for e, err := range dialogs {
			if err == nil {
				note("dialog: %s", e.Message)
				_, _ = chromedp.Call(s.tab, page.HandleJavaScriptDialog, page.HandleJavaScriptDialogParams{Accept: true})
			}
		}
	}()
	s.t.Cleanup(func() {
		if s.tab.Err() == nil {
			s.do(chromedp.Evaluate[chromedp.Void]("1")) // what was said before has come
		}
		mu.Lock()
		defer mu.Unlock()
		if len(complaints) > 0 {
			s.t.Errorf("the browser complains:\n%s", strings.Join(complaints, "\n"))
		}
	})
}

func (s *site) do(actions ...chromedp.Action[chromedp.Void]) {
	s.t.Helper()
	must(s.t, chromedp.Do(s.tab, actions...))
}

func (s *site) visit(target string) {
	s.t.Helper()
	s.do(chromedp.Navigate(s.url + target))
}

// eval is the value of an expression in the page.
func eval[T any](s *site, expression string) T {
	s.t.Helper()
	v, err := chromedp.Run(s.tab, chromedp.Evaluate[T](expression))
	must(s.t, err)
	return v
}

// until waits until an expression in the page is true. In a page that is not there yet it is not.
func (s *site) until(expression string) {
	s.t.Helper()
	test := "(() => { try { return Boolean(" + expression + ") } catch { return false } })()"
	for deadline := time.Now().Add(testserver.Patience(s.t)); !eval[bool](s, test); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			s.t.Fatalf("it is not so that %s; the page is:\n%s", expression, eval[string](s, "document.body.innerText"))
		}
	}
}

func (s *site) client(owner string) *rowlock.Client {
	s.t.Helper()
	c, err := rowlock.New(s.store, rowlock.Options{Owner: owner, ReapInterval: -1})
	must(s.t, err)
	s.t.Cleanup(func() { _ = c.Close(context.Background()) })
	return c
}

func (s *site) lock(owner, key string, opts ...rowlock.Option) *rowlock.Lease {
	s.t.Helper()
	lease, err := s.client(owner).TryAcquire(s.t.Context(), key, opts...)
	must(s.t, err)
	return lease
}

// scheme makes the browser prefer light or dark.
func (s *site) scheme(name string) {
	s.t.Helper()
	_, err := chromedp.Call(s.tab, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: name}},
	})
	must(s.t, err)
}
