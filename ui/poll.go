package ui

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rowlock/rowlock/driver"
)

// A poller asks the database for the keys of one prefix, again and again while somebody looks, once
// for all of them. Nearly always there is one: see pollers.

const (
	// maxPollers is how many prefixes are polled at once.
	maxPollers = 16

	// maxPollersOfOne is how many of them one user may have begun.
	maxPollersOfOne = 8
)

// maxPinned is of how many keys a poll asks whether they are pinned.
const maxPinned = 4

type poller struct {
	h      *Handler
	prefix string
	user   string // who has begun it

	mu      sync.Mutex
	viewers int
	keys    map[string]int // viewers of the pages of single keys
	running bool
	fresh   bool      // last is of this time of running
	last    *snapshot // nil: none yet
	news    chan struct{}
}

// enter says that somebody looks, until leave; at one key, if it is not empty. It may be called after
// Close: nothing is polled then.
func (p *poller) enter(key string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.viewers++
	if key != "" {
		p.keys[key]++
	}
	if !p.running && p.h.mayPoll() {
		p.running, p.fresh = true, false
		go p.run()
	}
}

func (p *poller) leave(key string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.viewers--
	if key != "" {
		if p.keys[key]--; p.keys[key] == 0 {
			delete(p.keys, key)
		}
	}
}

// now is the newest snapshot, nil if there is none of this time of looking; news is closed when
// there is a newer one.
func (p *poller) now() (s *snapshot, news <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.fresh {
		s = p.last
	}
	return s, p.news
}

// after waits for a snapshot that was asked for after t; the zero time: any of now. The caller
// has entered.
func (p *poller) after(ctx context.Context, t time.Time) (*snapshot, error) {
	for {
		s, news := p.now()
		if s != nil && s.begin.After(t) {
			return s, nil
		}
		select {
		case <-news:
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-p.h.open.Done():
			return nil, driver.ErrClosed
		}
	}
}

// run polls until nobody looks. Its last wait makes sure that viewers who come and go cause no
// more polls than those who stay. While an answer takes long, viewers are told that there is none.
func (p *poller) run() {
	defer p.h.polls.Done()
	for {
		before, began := p.lastOne(), time.Now()
		slow := time.AfterFunc(answerTime, func() { p.publish(before, p.unanswered(before, began)) })
		s := p.poll(before)
		slow.Stop()
		p.publish(nil, s)
		select {
		case <-time.After(p.h.o.Refresh):
		case <-p.h.open.Done():
		}
		p.mu.Lock()
		if p.viewers == 0 || p.h.open.Err() != nil {
			p.running, p.fresh = false, false
			p.mu.Unlock()
			return
		}
		p.mu.Unlock()
	}
}

// lastOne is the newest snapshot, whenever it was made.
func (p *poller) lastOne() *snapshot {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.last == nil {
		p.last = &snapshot{}
	}
	return p.last
}

// publish shows a snapshot to the viewers; with after only if that is still the newest one.
func (p *poller) publish(after, s *snapshot) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if after != nil && p.last != after {
		return
	}
	s.number = p.last.number + 1
	p.last, p.fresh = s, true
	close(p.news)
	p.news = make(chan struct{})
}

// unanswered is the snapshot of a poll that has no answer.
func (p *poller) unanswered(before *snapshot, began time.Time) *snapshot {
	p.mu.Lock()
	fresh := p.fresh
	p.mu.Unlock()
	return before.unanswered(began, fresh)
}

// poll asks the database once. Only run calls it.
func (p *poller) poll(before *snapshot) *snapshot {
	ctx, cancel := context.WithTimeout(p.h.open, patience)
	defer cancel()
	s := &snapshot{begin: time.Now()}
	infos, err := p.h.lister.List(ctx, p.prefix, "", p.h.o.Keys+1)
	s.at = time.Now()
	if err != nil {
		if before.failing.IsZero() && p.h.open.Err() == nil {
			p.h.o.Logger.Warn("the page cannot list the keys", "prefix", printable(p.prefix), "err", err)
		}
		return p.unanswered(before, s.begin)
	}
	s.readAt = s.at
	if s.more = len(infos) > p.h.o.Keys; s.more {
		infos = infos[:p.h.o.Keys]
	}
	p.askPinned(ctx, infos)
	p.follow(before, s, infos)
	s.findNeeds()
	return s
}

// askPinned asks of the free keys whose own pages are looked at, and of few of them, whether an open
// transaction must end first: a List need not say so. What is not known is left out.
func (p *poller) askPinned(ctx context.Context, infos []driver.Info) {
	p.mu.Lock()
	var keys []string
	for key := range p.keys {
		if len(keys) < maxPinned {
			keys = append(keys, key)
		}
	}
	p.mu.Unlock()
	for _, key := range keys {
		i, ok := slices.BinarySearchFunc(infos, key, func(i driver.Info, key string) int { return strings.Compare(i.Key, key) })
		if !ok || infos[i].Held || infos[i].Pinned {
			continue
		}
		if found, err := p.h.store.Inspect(ctx, []string{key}); err == nil && len(found) == 1 {
			infos[i].Pinned = found[0].Pinned
		}
	}
}

// follow makes the rows of a snapshot, each with what the one before knew of its hold, and notes the
// holds that have ended badly.
func (p *poller) follow(before, s *snapshot, infos []driver.Info) {
	near := s.begin.Sub(before.readAt) < 3*p.h.o.Refresh && before.failing.IsZero()
	s.rows = make([]row, len(infos))
	old := before.rows
	for i, info := range infos {
		for len(old) > 0 && old[0].Key < info.Key {
			old = old[1:]
		}
		r := row{Info: info, begin: s.begin, at: s.at, first: s.at, most: info.Left}
		if info.Waiting > 0 {
			r.waited = s.at
		}
		if len(old) > 0 && old[0].Key == info.Key {
			r.follow(&old[0])
			if near {
				p.h.pollers.losses.compare(&old[0], &r)
			}
		}
		r.settle(p.h.o.Refresh)
		s.rows[i] = r
	}
}

// pollers are those of a page, by prefix.
type pollers struct {
	h      *Handler
	losses losses

	mu       sync.Mutex
	all      *poller
	byPrefix map[string]*poller // of a page with more keys than one poll reads
}

func (ps *pollers) init(h *Handler) {
	ps.h = h
	ps.all = ps.make(h.o.Prefix)
	ps.byPrefix = make(map[string]*poller)
}

func (ps *pollers) make(prefix string) *poller {
	return &poller{h: ps.h, prefix: prefix, keys: make(map[string]int), news: make(chan struct{})}
}

// enter finds the poller that reads the keys of a view, and enters it; the caller leaves it. It is nil
// if too many prefixes are looked at. Keys without Options.Prefix are never read.
func (ps *pollers) enter(user string, v view) *poller {
	prefix := v.poll()
	ps.mu.Lock()
	defer ps.mu.Unlock()
	p := ps.all
	p.mu.Lock()
	cut := p.last != nil && p.last.more
	p.mu.Unlock()
	if cut && ps.narrower(prefix) {
		if p = ps.byPrefix[prefix]; p == nil {
			ps.dropIdle()
			if len(ps.byPrefix) >= maxPollers || ps.begunBy(user) >= maxPollersOfOne {
				return nil
			}
			p = ps.make(prefix)
			p.user = user
			ps.byPrefix[prefix] = p
		}
	}
	p.enter(v.key)
	return p
}

// look enters the poller that sees the keys of a view, and waits for its snapshot. The caller leaves
// the poller, unless there is an error.
func (ps *pollers) look(ctx context.Context, user string, v view, t time.Time) (*poller, *snapshot, error) {
	for {
		p := ps.enter(user, v)
		if p == nil {
			return nil, nil, errTooMany
		}
		s, err := p.after(ctx, t)
		if err == nil && (!s.more || p != ps.all || !ps.narrower(v.poll())) {
			return p, s, nil
		}
		p.leave(v.key)
		if err != nil {
			return nil, nil, err
		}
	}
}

// errTooMany is that of a viewer who looks at one prefix too many.
var errTooMany = errors.New("too many different beginnings of keys are looked at")

// begunBy counts the prefixes that a user has begun to look at. Called under mu.
func (ps *pollers) begunBy(user string) (n int) {
	for _, p := range ps.byPrefix {
		if p.user == user {
			n++
		}
	}
	return n
}

// narrower reports whether the keys with a prefix are some of the page's.
func (ps *pollers) narrower(prefix string) bool {
	return prefix != ps.h.o.Prefix && strings.HasPrefix(prefix, ps.h.o.Prefix)
}

// dropIdle forgets prefixes that nobody looks at. Called under mu.
func (ps *pollers) dropIdle() {
	for prefix, p := range ps.byPrefix {
		p.mu.Lock()
		if p.viewers == 0 && !p.running {
			delete(ps.byPrefix, prefix)
		}
		p.mu.Unlock()
	}
}
