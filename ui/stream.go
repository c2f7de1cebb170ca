package ui

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"time"
)

const (
	// heartbeat is the longest silence of a stream, so that proxies keep it.
	heartbeat = 15 * time.Second

	// writeTime is how long a viewer may take to read what is sent.
	writeTime = 10 * time.Second
)

// update is a message of the stream: what has changed since the one before.
type update struct {
	At      int64             `json:"at"`      // this machine's clock in ms, by which times count
	Clock   string            `json:"clock"`   // when the keys were read; empty: never
	Old     int64             `json:"old"`     // in ms: times count to this one, because the database does not answer; 0: to now
	Summary string            `json:"summary"` // HTML, as needs and losses
	Problem string            `json:"problem"`
	None    string            `json:"none"` // what an empty list means
	Caption string            `json:"caption"`
	Whole   bool              `json:"whole,omitempty"` // rows are all; others are to go
	Rows    []json.RawMessage `json:"rows,omitempty"`  // see rowMessage
	Gone    []string          `json:"gone,omitempty"`  // IDs
	Next    string            `json:"next"`            // the link to more keys
	Needs   *string           `json:"needs,omitempty"`
	Losses  *string           `json:"losses,omitempty"`
}

// viewer is what one browser has been sent.
type viewer struct {
	h      *Handler
	view   view
	sent   map[string]*appearance // by ID
	losses int                    // the number of the last ones
	live   bool                   // whether the database answered then
	needs  []*appearance          // the last ones
	began  bool
	told   bool // of the needs
}

// events is the stream of server-sent events for a list or a key: one message for each poll.
func (h *Handler) events(w http.ResponseWriter, r *http.Request) {
	v, err := h.parseView(r.URL.Query())
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	user := h.user(r)
	place := h.streams.enter(user)
	if place == nil {
		w.Header().Set("Retry-After", "10")
		http.Error(w, "too many viewers have live updates", http.StatusServiceUnavailable)
		return
	}
	defer h.streams.leave(place)
	header := w.Header()
	header.Set("Content-Type", "text/event-stream")
	header.Set("X-Accel-Buffering", "no")
	control := http.NewResponseController(w)
	send := func(text []byte) bool {
		err := control.SetWriteDeadline(time.Now().Add(writeTime))
		if err != nil && !errors.Is(err, http.ErrNotSupported) {
			return false
		}
		if _, err = w.Write(text); err == nil {
			err = control.Flush()
		}
		_ = control.SetWriteDeadline(time.Time{}) // HTTP/2 ends a stream at its deadline, also while nothing is sent
		return err == nil
	}
	if r.Method == http.MethodHead || !send([]byte("retry: 5000\n\n")) {
		return
	}
	p, _, err := h.pollers.look(r.Context(), user, v, time.Time{})
	if err != nil {
		return
	}
	defer p.leave(v.key)
	see := &viewer{h: h, view: v, sent: make(map[string]*appearance), losses: -1}
	alive := time.NewTicker(heartbeat)
	defer alive.Stop()
	for told := 0; ; {
		s, news := p.now()
		if s != nil && s.number != told {
			told = s.number
			if !send(see.message(s)) {
				return
			}
		}
		select {
		case <-news:
			continue
		case <-alive.C:
			if !send([]byte(": still here\n\n")) {
				return
			}
		case <-place.over:
			return
		case <-r.Context().Done():
			return
		case <-h.open.Done():
			return
		}
	}
}

// message is the event that tells of a snapshot.
func (v *viewer) message(s *snapshot) []byte {
	now := time.Now()
	u := update{At: now.UnixMilli(), Clock: s.readClock(), Old: s.old(), Problem: s.problem(),
		None: v.view.none(s), Caption: v.view.caption(s), Whole: !v.began}
	v.began = true
	rows, more := v.view.rows(s, v.h.o.Prefix, v.h.o.Rows)
	if more {
		u.Next = nextLink(v.view, rows)
	}
	part := "row"
	if v.view.key != "" {
		part = "facts"
	}
	seen := make(map[string]*appearance, len(rows))
	for _, r := range rows {
		seen[r.Key] = r.seen
		if old := v.sent[r.Key]; old == nil || !old.like(r.seen) {
			u.Rows = append(u.Rows, r.seen.rowMessage(v.h, part, now))
		}
	}
	for key := range v.sent {
		if seen[key] == nil {
			u.Gone = append(u.Gone, keyID(key))
		}
	}
	v.sent = seen
	if v.view.key == "" {
		u.Summary = execute("figures", v.view.figures(s))
		needs, more := v.view.needs(s)
		list := make([]*appearance, len(needs))
		for i, r := range needs {
			list[i] = r.seen
		}
		if !v.told || !slices.EqualFunc(list, v.needs, (*appearance).like) {
			v.told, v.needs = true, list
			text := execute("needs", v.h.needList(needs, more, now))
			u.Needs = &text
		}
	}
	if losses, number := v.h.pollers.losses.newest(shownLosses); number != v.losses || v.live != s.live() {
		v.losses, v.live = number, s.live()
		text := execute("losses", lossItems(now, losses, v.live))
		u.Losses = &text
	}
	var b bytes.Buffer
	b.WriteString("data: ")
	_ = json.NewEncoder(&b).Encode(u) // one line; it ends with a newline
	b.WriteString("\n")
	return b.Bytes()
}

// rowMessage is a key in an update, as HTML of the same template as in the page: {"id": …, "html": …}.
// All viewers of lists get the same.
func (a *appearance) rowMessage(h *Handler, part string, now time.Time) json.RawMessage {
	build := func() json.RawMessage {
		i := h.withRunbook(a.item(now))
		// Strings are always encoded.
		text, _ := json.Marshal(struct {
			ID   string `json:"id"`
			HTML string `json:"html"`
		}{i.ID, execute(part, i)})
		return text
	}
	if part != "row" {
		return build()
	}
	a.once.Do(func() { a.message = build() })
	return a.message
}

// execute is a part of a page. The templates take what they are given here: a failure leaves out the rest.
func execute(part string, data any) string {
	var b bytes.Buffer
	_ = pages.ExecuteTemplate(&b, part, data)
	return b.String()
}
