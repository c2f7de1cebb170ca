package ui

import (
	"encoding/json"
	"net/http"
	"time"
	"unicode/utf8"

	"github.com/rowlock/rowlock/driver"
)

// keyJSON is a key for programs.
type keyJSON struct {
	Key     string `json:"key"`
	KeyHex  string `json:"key_hex,omitempty"` // where the key is no text
	State   string `json:"state"`
	Renewed *bool  `json:"renewed,omitempty"` // whether its holder renews it; none: not known
	Owner   string `json:"owner,omitempty"`
	Since   string `json:"since,omitempty"`
	LeftMS  int64  `json:"left_ms"`
	Token   int64  `json:"token"`
	Hold    string `json:"hold,omitempty"`
	Readers int    `json:"readers,omitempty"`
	Slots   int    `json:"slots,omitempty"`

	Waiting      int    `json:"waiting"`                 // programs
	WaitingSince string `json:"waiting_since,omitempty"` // the first of them; none: at least so many wait
}

// keysJSON is the list for programs: prefix, after, all and k as in the page.
func (h *Handler) keysJSON(w http.ResponseWriter, r *http.Request) {
	v, err := h.parseView(r.URL.Query())
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	p, s, err := h.pollers.look(r.Context(), h.user(r), v, time.Time{})
	if err != nil {
		http.Error(w, "the keys were not read", http.StatusServiceUnavailable)
		return
	}
	p.leave(v.key)
	if !s.failing.IsZero() {
		http.Error(w, "the database does not answer", http.StatusBadGateway)
		return
	}
	answer := struct {
		At   string    `json:"at"`
		More bool      `json:"more"`
		Keys []keyJSON `json:"keys"`
	}{At: s.at.UTC().Format(time.RFC3339Nano), Keys: []keyJSON{}}
	rows, more := v.rows(s, h.o.Prefix, h.o.Rows)
	answer.More = more || s.more
	for _, r := range rows {
		answer.Keys = append(answer.Keys, r.json())
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer) // the client went away
}

func (r *row) json() keyJSON {
	j := keyJSON{Key: r.Key, State: r.seen.state, Owner: r.Owner, LeftMS: r.Left.Milliseconds(), Token: r.Token,
		Readers: r.Readers, Slots: r.Slots, Waiting: r.Waiting}
	if r.Hold != (driver.HoldID{}) {
		j.Hold = r.Hold.String()
	}
	if !utf8.ValidString(r.Key) {
		j.KeyHex = keyID(r.Key)
	}
	if !r.Since.IsZero() {
		j.Since = r.Since.UTC().Format(time.RFC3339Nano)
	}
	if !r.WaitingSince.IsZero() {
		j.WaitingSince = r.WaitingSince.UTC().Format(time.RFC3339Nano)
	}
	if r.life == lives || r.life == silent {
		renewed := r.life == lives
		j.Renewed = &renewed
	}
	return j
}
