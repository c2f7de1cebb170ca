package main

import (
	"bufio"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/rowlock/rowlock/internal/testserver"
)

// watcher is a service that watches jobs: it notes which paths were asked for, and answers as it is told.
type watcher struct {
	*httptest.Server
	mu    sync.Mutex
	asked []string
}

func newWatcher(t *testing.T, answer func(w http.ResponseWriter, n int)) *watcher {
	w := &watcher{}
	w.Server = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, req *http.Request) {
		w.mu.Lock()
		w.asked = append(w.asked, req.URL.RequestURI())
		n := len(w.asked)
		w.mu.Unlock()
		answer(rw, n)
	}))
	t.Cleanup(w.Close)
	return w
}

// take returns what was asked for since the last call.
func (w *watcher) take() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	asked := w.asked
	w.asked = nil
	return asked
}

// TestPing: a job is told of at its start, its success and its failure. What another host runs is told of by that one.
func TestPing(t *testing.T) {
	t.Parallel()
	address := database(t, testserver.MySQL)
	h := newHost(t, address)
	must(t, h.store.Migrate(t.Context()))
	empty := database(t, testserver.MySQL)
	h.env = append(h.env, "ROWLOCK_DB="+address)
	w := newWatcher(t, func(http.ResponseWriter, int) {})
	h.background("rowlock run --max-hold 1m taken -- sleep 60")
	eventually(t, "the key is held", func() bool { return h.run("rowlock ls -o names") != "" })
	for _, c := range []struct {
		line, out string
		want      []string
	}{
		{"report -- true", "", []string{"/id/start", "/id"}},
		{"report -- sh -c 'exit 3'", "[exit code 3]\n", []string{"/id/start", "/id/fail"}},
		{"-n taken -- true", "[exit code 75]\n", nil},
		{"-x taken -- true", "", nil},
		{"--run 1 once -- true", "", []string{"/id/start", "/id"}},
		{"-x --run 1 once -- true", "", nil},
		{"report -- no-such-command", "[exit code 127]\n", []string{"/id/fail"}},
		{"--pass-db report -- rowlock --db " + empty + " run -n report -- true", "", []string{"/id/start", "/id/fail"}},
	} {
		out := h.run("rowlock run --ping " + w.URL + "/id " + c.line)
		if c.out != "" && !strings.HasSuffix(out, c.out) {
			t.Errorf("%s: %s", c.line, out)
		}
		if got := w.take(); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.line, got, c.want)
		}
	}
	h.run("rowlock run --ping '" + w.URL + "/id?rid=7' report -- true")
	if got, want := w.take(), []string{"/id/start?rid=7", "/id?rid=7"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestPingFails: a service that does not answer, or not well, costs a line, and neither the exit code nor the lock.
func TestPingFails(t *testing.T) {
	t.Parallel()
	address := database(t, testserver.MySQL)
	h := newHost(t, address)
	must(t, h.store.Migrate(t.Context()))
	h.env = append(h.env, "ROWLOCK_DB="+address)
	for _, c := range []struct {
		name   string
		answer func(w http.ResponseWriter, n int)
		out    string
		asked  int
	}{
		{"it is not known", func(w http.ResponseWriter, _ int) { w.WriteHeader(http.StatusNotFound) }, "(success): 404 Not Found\n", 2},
		{"it fails once", func(w http.ResponseWriter, n int) {
			if n == 1 {
				w.WriteHeader(http.StatusServiceUnavailable)
			}
		}, "", 3},
	} {
		w := newWatcher(t, c.answer)
		out := h.run("rowlock run --ping " + w.URL + "/secret report -- true")
		if !strings.HasSuffix(out, c.out) || c.out == "" && out != "" || strings.Contains(out, "secret") {
			t.Errorf("%s: %q, want %q", c.name, out, c.out)
		}
		if got := len(w.take()); got != c.asked {
			t.Errorf("%s: %d requests, want %d", c.name, got, c.asked)
		}
	}

	// The command runs, and the key is given back, while the service is silent.
	silent := make(chan struct{})
	w := newWatcher(t, func(_ http.ResponseWriter, n int) {
		if n == 1 {
			<-silent
		}
	})
	t.Cleanup(func() { close(silent) }) // before the service is closed, which waits for its requests
	cmd := h.sh("rowlock run --ping " + w.URL + "/id report -- echo ran")
	out, err := cmd.StdoutPipe()
	must(t, err)
	var warnings strings.Builder
	cmd.Stderr = &warnings
	must(t, cmd.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	must(t, err)
	if line != "ran\n" {
		t.Errorf("%q", line)
	}
	eventually(t, "the key is free", func() bool {
		infos, err := h.store.Inspect(t.Context(), []string{"report"})
		must(t, err)
		return !infos[0].Held
	})
	must(t, cmd.Wait())
	if text := warnings.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, "(start): context deadline exceeded") {
		t.Errorf("%s", text)
	}
	if got, want := w.take(), []string{"/id/start", "/id"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
