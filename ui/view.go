package ui

import (
	"encoding/hex"
	"fmt"
	"net/url"
	"strings"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/words"
)

// view is which keys a viewer looks at.
type view struct {
	key    string // one; empty: a list
	prefix string
	after  string // keys up to this one are left out
	all    bool   // free keys too
}

// parseView reads the parameters of a request: k (a key in hex), prefix, after
// (hex), all.
func (h *Handler) parseView(query url.Values) (v view, err error) {
	bytes := func(name string) string {
		text, e := hex.DecodeString(query.Get(name))
		if e != nil || len(text) > driver.MaxKey {
			err = fmt.Errorf("%s=%s: use the bytes of a key in hex, at most %d", name, printable(query.Get(name)), driver.MaxKey)
		}
		return string(text)
	}
	v.key, v.after, v.all = bytes("k"), bytes("after"), query.Get("all") != ""
	if v.prefix = query.Get("prefix"); v.prefix == "" {
		v.prefix = h.o.Prefix
	}
	if len(v.prefix) > driver.MaxKey {
		err = fmt.Errorf("prefix of %d bytes: no key has more than %d", len(v.prefix), driver.MaxKey)
	}
	return v, err
}

// poll is the prefix of the poller that sees the keys.
func (v view) poll() string {
	if v.key != "" {
		return v.key
	}
	return v.prefix
}

// rows are those of a snapshot that the viewer sees, at most limit, and only keys with the prefix of
// the page; more: there are others after them. Of a single key there is always one.
func (v view) rows(s *snapshot, prefix string, limit int) (rows []*row, more bool) {
	if v.key != "" {
		r := s.find(v.key)
		if r == nil || !strings.HasPrefix(v.key, prefix) { // never locked, or not lately
			r = &row{Info: driver.Info{Key: v.key}}
			r.settle(0)
		}
		return []*row{r}, false
	}
	for i := range s.rows {
		r := &s.rows[i]
		if r.Key <= v.after && v.after != "" || !strings.HasPrefix(r.Key, v.prefix) || !strings.HasPrefix(r.Key, prefix) {
			continue
		}
		if !v.all && !r.Held && !r.Pinned {
			continue
		}
		if len(rows) == limit {
			return rows, true
		}
		rows = append(rows, r)
	}
	return rows, false
}

// query is the view as parameters of a link.
func (v view) query() url.Values {
	q := url.Values{}
	if v.key != "" {
		q.Set("k", keyID(v.key))
	}
	if v.prefix != "" {
		q.Set("prefix", v.prefix)
	}
	if v.after != "" {
		q.Set("after", keyID(v.after))
	}
	if v.all {
		q.Set("all", "1")
	}
	return q
}

// summarize makes a line about all keys of a snapshot.
func (s *snapshot) summarize() {
	taken, waited, silents := 0, 0, 0
	for i := range s.rows {
		r := &s.rows[i]
		if r.Held || r.Pinned {
			taken++
		}
		if r.Wanted.Client != 0 || r.Waiting > 0 {
			waited++
		}
		if r.life == silent {
			silents++
		}
	}
	verb := "are"
	if taken == 1 {
		verb = "is"
	}
	s.summary = fmt.Sprintf("%s of %d %s taken", words.Count(taken, "key", "keys"), len(s.rows), verb)
	if waited > 0 {
		s.summary += fmt.Sprintf(", %d waited for", waited)
	}
	if silents > 0 {
		s.summary += fmt.Sprintf(", %d not renewed", silents)
	}
	if s.more {
		s.summary += fmt.Sprintf("; there are more than these %d: name the beginning of the keys", len(s.rows))
	}
	s.summary += "."
}

// problem says that the database does not answer; empty: it does.
func (s *snapshot) problem() string {
	switch {
	case s.failing.IsZero():
		return ""
	case s.readAt.IsZero():
		return "The database does not answer, or not with a list of keys: the program's log says why."
	}
	return "The database has not answered since " + clock(s.at, s.failing) + ". What is shown is what it said last; the program's log says more."
}
