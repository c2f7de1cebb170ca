package ui

import (
	"bytes"
	"embed"
	"errors"
	"html/template"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

//go:embed pages
var pageFiles embed.FS

var pages = template.Must(template.New("").Funcs(template.FuncMap{
	"asset": func(file string) string { return assetNames[file] },
	"name":  name, "long": long,
}).ParseFS(pageFiles, "pages/*.html"))

const (
	// reloadEvery is how often a page without script reloads itself.
	reloadEvery = 5 * time.Second

	// shownLosses is how many there are on a page.
	shownLosses = 20
)

// page is what the templates know.
type page struct {
	Title  string // of all pages
	Head   string // of this one
	Reload int    // seconds; 0: not by itself
	Other  string // the same page, with or without that
	Stream string // its live updates; empty: none
	Millis int64
	Where  string // the database
	Free   bool   // the user may free keys
	Link   bool   // anybody with a link may
	Actor  string // who that is

	At      string // when the keys were read, for people; empty: never
	Live    bool   // the database answers
	Old     int64  // in ms: durations are counted to this time, not to now; 0: to now
	Problem string
	Summary figures
	Needs   needList
	None    string // what an empty list means
	Caption string
	Note    string
	View    struct {
		Prefix string // what there is to say of it
		Typed  string // what the user typed
		All    bool
	}
	Items  []item
	Next   string // a link
	Losses lossList

	// Of the pages key and free.
	Name, ID, Owner, Hold, Until string
	Token                        int64
	Kept                         bool
	Alive, Error                 string
	Back                         string
}

// lossItem is a loss for the templates.
type lossItem struct {
	ISO, Clock, ID, Key, Owner, How string
	Token                           int64
}

// lossList are the newest losses, for the templates.
type lossList struct {
	Items []lossItem
	Live  bool // the database answers, so none is missed
}

func lossItems(now time.Time, list []loss, live bool) lossList {
	items := lossList{Live: live}
	for _, l := range list {
		items.Items = append(items.Items, lossItem{
			ISO: l.At.UTC().Format(time.RFC3339), Clock: clock(now, l.At), ID: keyID(l.Key), Key: printable(l.Key),
			Owner: printable(l.Owner), How: l.How, Token: l.Token,
		})
	}
	return items
}

// needList are the keys that need a human, for the templates.
type needList struct {
	Items []item
	More  int
}

func (h *Handler) needList(rows []*row, more int, now time.Time) needList {
	list := needList{More: more}
	for _, r := range rows {
		list.Items = append(list.Items, h.withRunbook(r.seen.item(now)))
	}
	return list
}

// withRunbook completes the link to what to do.
func (h *Handler) withRunbook(i item) item {
	if i.Do.Part != "" {
		i.Do.Link = h.o.Runbook + "#" + i.Do.Part
	}
	return i
}

// actor is who may free keys by this request.
func (h *Handler) actor(r *http.Request) (name string, ok bool) {
	if h.o.MayFree == nil {
		return "", false
	}
	return h.o.MayFree(r)
}

// newPage is a page about a snapshot.
func (h *Handler) newPage(r *http.Request, s *snapshot, v view) *page {
	now := time.Now()
	p := &page{
		Title: h.o.Title, Head: h.o.Title, Where: h.o.Database, Millis: now.UnixMilli(),
		At: s.readClock(), Live: s.live(), Old: s.old(), Problem: s.problem(), Summary: v.figures(s), None: v.none(s), Caption: v.caption(s),
	}
	p.Actor, p.Free = h.actor(r)
	p.Link = p.Actor == linkUser
	needs, others := v.needs(s)
	p.Needs = h.needList(needs, others, now)
	query := v.query()
	p.Stream = "events?" + query.Encode()
	if r.URL.Query().Get("still") == "" {
		p.Reload = int(max(reloadEvery, h.o.Refresh) / time.Second)
		query.Set("still", "1")
	}
	p.Other = "?" + query.Encode()
	losses, _ := h.pollers.losses.newest(shownLosses)
	p.Losses = lossItems(now, losses, s.live())
	rows, more := v.rows(s, h.o.Prefix, h.o.Rows)
	for _, r := range rows {
		p.Items = append(p.Items, h.withRunbook(r.seen.item(s.asOf(now))))
	}
	if more {
		p.Next = nextLink(v, rows)
	}
	return p
}

// nextLink is that of the keys after these.
func nextLink(v view, rows []*row) string {
	v.after = rows[len(rows)-1].Key
	return "?" + v.query().Encode()
}

// list is the page with the table.
func (h *Handler) list(w http.ResponseWriter, r *http.Request) {
	v, s, ok := h.look(w, r, false, time.Time{})
	if !ok {
		return
	}
	p := h.newPage(r, s, v)
	p.View.All = v.all
	if v.prefix != "" {
		p.View.Prefix = printable(v.prefix)
	}
	if v.prefix != h.o.Prefix {
		p.View.Typed = v.prefix
	}
	h.write(w, http.StatusOK, "list", p)
}

// key is the page about one key.
func (h *Handler) key(w http.ResponseWriter, r *http.Request) {
	v, s, ok := h.look(w, r, true, time.Time{})
	if !ok {
		return
	}
	p := h.newPage(r, s, v)
	p.Name, p.ID = printable(v.key), keyID(v.key)
	p.Head = p.Name + " – " + h.o.Title
	if token := r.URL.Query().Get("freed"); token != "" {
		if n, err := strconv.ParseInt(token, 10, 64); err == nil && h.pollers.losses.fromPage(v.key, n) { // anybody can make a link
			p.Note = "The hold with token " + strconv.FormatInt(n, 10) + " was ended."
		}
	}
	h.write(w, http.StatusOK, "key", p)
}

// look waits for a snapshot that was asked for after t, of what a request wants to see: one key, or
// a list. Otherwise it has answered the request.
func (h *Handler) look(w http.ResponseWriter, r *http.Request, one bool, t time.Time) (v view, s *snapshot, ok bool) {
	query := r.URL.Query()
	if r.Form != nil { // of a POST: with the body
		query = r.Form
	}
	v, err := h.parseView(query)
	switch {
	case err != nil:
		h.message(w, r, http.StatusBadRequest, "This link is wrong", err.Error())
		return v, nil, false
	case one && v.key == "":
		h.message(w, r, http.StatusBadRequest, "This link is wrong", "It names no key: k= has the bytes of one in hex.")
		return v, nil, false
	case one && !strings.HasPrefix(v.key, h.o.Prefix):
		h.message(w, r, http.StatusNotFound, "This page does not show that key", "Its keys begin with "+printable(h.o.Prefix)+".")
		return v, nil, false
	case !one:
		v.key = ""
	}
	p, s, err := h.pollers.look(r.Context(), h.user(r), v, t)
	switch {
	case errors.Is(err, errTooMany):
		w.Header().Set("Retry-After", "10")
		h.message(w, r, http.StatusServiceUnavailable, "Too many viewers look at different keys", "Look at all keys, or try again in a while.")
		return v, nil, false
	case err != nil:
		h.message(w, r, http.StatusServiceUnavailable, "The keys were not read", "The request or the page was ended while the database was asked.")
		return v, nil, false
	}
	p.leave(v.key)
	return v, s, true
}

// message answers with a page that says something.
func (h *Handler) message(w http.ResponseWriter, r *http.Request, status int, head, text string) {
	h.write(w, status, "message", &page{Title: h.o.Title, Where: h.o.Database, Head: head, Note: text, Back: "./"})
}

// write sends a page.
func (h *Handler) write(w http.ResponseWriter, status int, name string, p *page) {
	var b bytes.Buffer
	if err := pages.ExecuteTemplate(&b, name, p); err != nil {
		h.o.Logger.Error("the page cannot be made", "page", name, "err", err)
		http.Error(w, "the page cannot be made", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes()) // the browser went away
}

// linkTo is the page of a key.
func linkTo(key string, more ...string) string {
	q := url.Values{"k": {keyID(key)}}
	for i := 0; i+1 < len(more); i += 2 {
		q.Set(more[i], more[i+1])
	}
	return "key?" + q.Encode()
}
