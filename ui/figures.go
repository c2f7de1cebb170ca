package ui

import (
	"fmt"
	"strings"

	"github.com/rowlock/rowlock/internal/words"
)

// figures are the numbers at the head of a list.
type figures struct {
	Known                 bool
	Held, Waiting, Silent int
	kept, pinned, unclear int
	keys                  int
	more                  bool
}

// figures counts the keys of the view.
func (v view) figures(s *snapshot) figures {
	f := figures{Known: s.live(), more: s.more}
	if !f.Known {
		return f
	}
	for i := range s.rows {
		r := &s.rows[i]
		if !strings.HasPrefix(r.Key, v.prefix) {
			continue
		}
		f.keys++
		switch {
		case r.Kept:
			f.kept++
		case r.Held:
			f.Held++
		case r.Pinned:
			f.pinned++
		}
		switch r.life {
		case silent:
			f.Silent++
		case unclear:
			f.unclear++
		}
		f.Waiting += r.Waiting
	}
	return f
}

// Rest is what else there is to count, in words.
func (f figures) Rest() string {
	if !f.Known {
		return ""
	}
	var b strings.Builder
	if f.unclear > 0 {
		fmt.Fprintf(&b, "%s not watched for long enough to know. ", words.Count(f.unclear, "holder was", "holders were"))
	}
	if f.kept > 0 {
		fmt.Fprintf(&b, "%s kept by MinHold. ", words.Count(f.kept, "key is", "keys are"))
	}
	if f.pinned > 0 {
		fmt.Fprintf(&b, "%s pinned. ", words.Count(f.pinned, "key is", "keys are"))
	}
	if f.more {
		fmt.Fprintf(&b, "These are the first %d keys; there are more: type the beginning of a key.", f.keys)
	} else {
		fmt.Fprintf(&b, "%s in all, with free ones.", words.Count(f.keys, "key", "keys"))
	}
	return b.String()
}
