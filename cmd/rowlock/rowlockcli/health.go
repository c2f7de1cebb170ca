package rowlockcli

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/rowlock/rowlock/driver"
)

// health answers who has the key, for probes and load balancers: --http.
type health struct {
	run    *run
	server *http.Server

	mu    sync.Mutex
	lease *hold // nil: the command does not run

	asking sync.Mutex // one request asks the database, the others wait for its answer
	seen   driver.Info
	at     time.Time // of seen
}

// startHealth listens on the address of --http; without a host on that of this machine alone, because nobody is asked for
// a password.
func startHealth(r *run) (*health, error) {
	host, port, err := net.SplitHostPort(r.f.http)
	if err != nil {
		return nil, invalid("--http %s: use :PORT, which is 127.0.0.1:PORT, or 0.0.0.0:PORT for every network", r.f.http)
	}
	if host == "" || strings.EqualFold(host, "localhost") { // which a resolver may give another address
		host = "127.0.0.1"
	}
	listener, err := net.Listen("tcp", net.JoinHostPort(host, port))
	if err != nil {
		return nil, &ExitError{Code: exitUsage, Err: fmt.Errorf("--http %s: %w", r.f.http, err)}
	}
	h := &health{run: r}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", h.healthz)
	mux.HandleFunc("GET /leader", h.leader)
	mux.HandleFunc("GET /metrics", h.metrics)
	h.server = &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second, WriteTimeout: 10 * time.Second}
	go func() { _ = h.server.Serve(listener) }() // until close
	r.detail("listening on %s", listener.Addr())
	return h, nil
}

func (h *health) close() {
	if h != nil {
		_ = h.server.Close()
	}
}

// set says that the command runs under a lease; nil: it does not run.
func (h *health) set(lease *hold) {
	if h == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lease = lease
}

func (h *health) held() bool {
	h.mu.Lock()
	lease := h.lease
	h.mu.Unlock()
	return lease != nil && lease.Err() == nil
}

func (h *health) healthz(w http.ResponseWriter, _ *http.Request) {
	if !h.held() {
		http.Error(w, "not held", http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, "held")
}

// leader says who has the key, this program or another. The database is asked once a second at most.
func (h *health) leader(w http.ResponseWriter, req *http.Request) {
	h.asking.Lock()
	defer h.asking.Unlock()
	if time.Since(h.at) > time.Second {
		ctx, cancel := context.WithTimeout(req.Context(), time.Duration(h.run.flags.timeout))
		defer cancel()
		infos, err := h.run.store.Inspect(ctx, []string{h.run.key})
		if err != nil {
			http.Error(w, "the database does not answer", http.StatusServiceUnavailable)
			return
		}
		h.seen, h.at = infos[0], time.Now()
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(struct {
		keyJSON
		Me bool `json:"me"`
	}{asJSON(h.seen), h.held()})
}

func (h *health) metrics(w http.ResponseWriter, _ *http.Request) {
	value := 0
	if h.held() {
		value = 1
	}
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	var b strings.Builder
	b.WriteString("# HELP rowlock_run_held Whether the key is held, and the command runs.\n# TYPE rowlock_run_held gauge\n")
	for _, key := range h.run.keys {
		fmt.Fprintf(&b, "rowlock_run_held%s %d\n", (&metrics{key: key}).label(), value)
	}
	_, _ = w.Write([]byte(b.String()))
}
