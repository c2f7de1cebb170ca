package ui

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"reflect"
	"strings"
	"sync"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/input"
)

// Options say what a page shows and to whom. The zero value is a page that only reads, for
// browsers on this machine.
type Options struct {
	// Title is the page's heading, for people who have several. Default "Locks".
	Title string

	// Database says where the locks are, for people who have several databases: host, database, strategy, and no password.
	// Default: what the store's String method says, if it has one.
	Database string

	// Runbook is the address of a page that says what to do; "#the-holder-is-dead", "#a-transaction-in-the-way",
	// "#waits-grow" or "#does-the-holder-live" is put after it. Default: the runbook of this project.
	Runbook string

	// Prefix is that of the keys which the page shows; empty: all.
	Prefix string

	// Refresh is the time between two polls of the database, at least 100 ms. Default 2 s.
	Refresh time.Duration

	// Keys is the most keys that a poll reads. Default 10 000.
	Keys int

	// Rows is the most keys on one page. Default 200.
	Rows int

	// Hosts are the names, without a port, under which browsers reach the page, beside those of
	// this machine: localhost, 127.0.0.1, ::1. A request for another host gets 421. "*" stands
	// for any name, for a page behind a proxy that looks at names itself.
	Hosts []string

	// MayFree says whether the user who made a request may end a hold, and who that is, for the
	// log. It is asked for every request that shows or does it, concurrently. nil: nobody may.
	MayFree func(*http.Request) (actor string, ok bool)

	// Logger gets failures of the database, and each hold that was ended with key, token, owner
	// and actor. Default: none.
	Logger *slog.Logger
}

const (
	defaultRefresh = 2 * time.Second
	minRefresh     = 100 * time.Millisecond
	defaultKeys    = 10_000
	defaultRows    = 200

	// patience bounds a statement.
	patience = 10 * time.Second

	// answerTime is how long a statement may take until viewers are told that the database does not answer.
	answerTime = 3 * time.Second
)

// Handler is the page. It is safe for concurrent use.
type Handler struct {
	o       Options
	store   driver.Store
	lister  driver.Lister
	forcer  driver.ForcerIf // nil: the page only reads
	pollers pollers
	streams streams
	serve   http.Handler

	open  context.Context // until Close
	close context.CancelFunc
	mu    sync.Mutex     // of polls.Add and close: none is added after it
	polls sync.WaitGroup // goroutines that poll
}

// New makes a page about the keys of a store, which must be a driver.Lister, and a
// driver.ForcerIf if there is an Options.MayFree. It does no I/O. Errors: ErrInvalid,
// ErrNotSupported.
func New(store driver.Store, o Options) (*Handler, error) {
	lister, ok := store.(driver.Lister)
	if !ok {
		return nil, fmt.Errorf("ui: %w: the store (%T) cannot list its keys", driver.ErrNotSupported, store)
	}
	if v := reflect.ValueOf(store); v.Kind() == reflect.Pointer && v.IsNil() {
		return nil, fmt.Errorf("ui: %w: the store is nil", driver.ErrInvalid)
	}
	h := &Handler{store: store, lister: lister}
	if o.MayFree != nil {
		if h.forcer, ok = store.(driver.ForcerIf); !ok {
			return nil, fmt.Errorf("ui: %w: MayFree is set, but the store (%T) cannot end a hold", driver.ErrNotSupported, store)
		}
	}
	switch {
	case o.Refresh < 0 || o.Refresh > 0 && o.Refresh < minRefresh:
		return nil, fmt.Errorf("ui: %w: Refresh %v: use 0 for %v, or at least %v", driver.ErrInvalid, o.Refresh, defaultRefresh, minRefresh)
	case o.Keys < 0:
		return nil, fmt.Errorf("ui: %w: Keys %d: use 0 for %d, or more", driver.ErrInvalid, o.Keys, defaultKeys)
	case o.Rows < 0:
		return nil, fmt.Errorf("ui: %w: Rows %d: use 0 for %d, or more", driver.ErrInvalid, o.Rows, defaultRows)
	case len(o.Prefix) > driver.MaxKey:
		return nil, fmt.Errorf("ui: %w: Prefix of %d bytes: no key has more than %d", driver.ErrInvalid, len(o.Prefix), driver.MaxKey)
	}
	for _, host := range o.Hosts {
		if fault := input.Fault(host); fault != "" { // no browser would ask for it
			return nil, fmt.Errorf("ui: %w: Hosts: %q %s: leave it out", driver.ErrInvalid, host, fault)
		}
	}
	if s, ok := store.(fmt.Stringer); ok && o.Database == "" {
		o.Database = s.String()
	}
	o.Title = cmp.Or(o.Title, "Locks")
	o.Database = strings.ToValidUTF8(o.Database, "?")
	o.Runbook = cmp.Or(o.Runbook, runbook)
	o.Refresh = cmp.Or(o.Refresh, defaultRefresh)
	o.Keys = cmp.Or(o.Keys, defaultKeys)
	o.Rows = cmp.Or(o.Rows, defaultRows)
	if o.Logger == nil {
		o.Logger = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	h.o = o
	h.open, h.close = context.WithCancel(context.Background())
	h.pollers.init(h)
	h.serve = h.protect(http.HandlerFunc(h.route))
	return h, nil
}

// mayPoll counts one more goroutine that polls; false: the page is closed.
func (h *Handler) mayPoll() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.open.Err() != nil {
		return false
	}
	h.polls.Add(1)
	return true
}

// ServeHTTP serves the page under any path: all its links are relative. A page that is mounted at
// /locks/ may be behind http.StripPrefix or not.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) { h.serve.ServeHTTP(w, r) }

// Close ends the streams of all viewers and the polls, and waits for the latter. Requests that come
// later get 503. A server that is shut down in order waits for streams: let it call Close first
// (http.Server.RegisterOnShutdown). Close may be called more than once; it returns nil.
func (h *Handler) Close() error {
	h.mu.Lock()
	h.close()
	h.mu.Unlock()
	h.polls.Wait()
	return nil
}
