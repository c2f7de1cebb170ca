package keys

import (
	"cmp"
	"context"
	"slices"

	"github.com/rowlock/rowlock/driver"
)

// A caller that does not wait is told who has the key. Where the answer to its attempt does not say so
// (driver.Result.Owner), the key is read once more.

// holderReads reads who has the keys that were refused. One statement is on its way at a time; keys that are asked for
// meanwhile share the next one. Guarded by Table.mu.
type holderReads struct {
	next    *holderRead // that has not begun; nil: nobody asks
	running bool
}

// holderRead is one statement.
type holderRead struct {
	keys  []string
	done  chan struct{}
	infos map[string]driver.Info // of the keys that were read; written before done is closed
}

// WhoHas completes the refusal of an attempt for a caller that does not wait: with who has the key, if that is not known, and what
// it was is. ctx bounds the wait for that.
func (t *Table) WhoHas(ctx context.Context, id ID, slots int, met *Refusal) *Refusal {
	if met.Owner != "" || met.OwnRelease || met.Standing > 0 && met.Left == 0 {
		return met
	}
	t.mu.Lock()
	here, before := t.heldHere(id), t.left(id)
	t.mu.Unlock()
	named := *met
	named.PerhapsOwn = false
	if here != nil && here != ByOwnRelease {
		named.Owner, named.Left = here.Owner, cmp.Or(met.Left, here.Left)
		return &named
	}
	info, read := t.readHolder(ctx, id.Name)
	if !read {
		return met
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case met.Pinned && (!info.Pinned || info.Held): // of a key that others have taken and given back it is not known whose transaction must end
		return met
	case met.Pinned:
	case t.heldHere(id) != nil:
		return met // who refused the attempt has it no more
	case (met.PerhapsOwn || before.MayHave()) && (info.Owner == "" || freeFor(id.Mode, slots, info)): // it was passed on and nobody has taken it, or has ended meanwhile
		return ByOwnRelease
	case freeFor(id.Mode, slots, info):
		return met // who refused the attempt has it no more
	case t.metOwn(id, &Refusal{Owner: info.Owner}, before):
		return ByOwnRelease
	default:
		named.Left, named.Shared = cmp.Or(met.Left, info.Left), met.Shared || info.InPhase() && id.Mode == driver.Exclusive
	}
	named.Owner = info.Owner
	return &named
}

// readHolder reads the state of a key; false: that was not answered before ctx or the client ended.
func (t *Table) readHolder(ctx context.Context, key string) (info driver.Info, read bool) {
	r := t.joinHolderRead(key)
	if r == nil {
		return info, false
	}
	select {
	case <-r.done:
		info, read = r.infos[key]
	case <-ctx.Done():
	case <-t.Open.Done():
	}
	return info, read
}

// joinHolderRead adds key to the next statement; nil: the client is closed.
func (t *Table) joinHolderRead(key string) *holderRead {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return nil
	}
	s := &t.holderReads
	if s.next == nil {
		s.next = &holderRead{done: make(chan struct{}), infos: make(map[string]driver.Info)}
	}
	if !slices.Contains(s.next.keys, key) {
		s.next.keys = append(s.next.keys, key)
	}
	if !s.running {
		s.running = true
		t.Store.Work.Fork(t.runHolderReads)
	}
	return s.next
}

// runHolderReads reads until nobody asks.
func (t *Table) runHolderReads() {
	for {
		t.mu.Lock()
		r := t.holderReads.next
		t.holderReads.next, t.holderReads.running = nil, r != nil
		t.mu.Unlock()
		if r == nil {
			return
		}
		for keys := range slices.Chunk(r.keys, t.Store.Limits.Batch) {
			infos, err := t.Store.AskInspect(t.Open, t.Open, keys, probeTimeout)
			if err != nil {
				break
			}
			for i, info := range infos {
				r.infos[keys[i]] = info
			}
		}
		close(r.done)
	}
}
