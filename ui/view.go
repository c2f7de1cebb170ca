package ui

import (
	"encoding/hex"
	"fmt"
	"net/url"
	"strings"

	"github.com/rowlock/rowlock/driver"
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
// the page; more: there are others after them. Of a single key there is always one, unless the keys
// could not be read.
func (v view) rows(s *snapshot, prefix string, limit int) (rows []*row, more bool) {
	if !s.known() {
		return nil, false
	}
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
