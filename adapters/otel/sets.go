package otelrowlock

import (
	"context"
	"maps"
	"sync/atomic"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/internal/words"
)

// lockID is a client and a name of its keys.
type lockID struct{ client, name string }

// lockSets are the attributes that most events of a lock have, made once: to make a set costs
// more than to record a value. They are slices because Record takes one: of a single option
// the compiler would make a new slice for each call.
type lockSets struct {
	id              lockID
	granted, locals []metric.RecordOption // of acquires; of those that were local
	released        []metric.RecordOption
	renewed         []metric.RecordOption
	ops             []opSet
}

// opSet are the attributes of a call of the store.
type opSet struct {
	op    string
	attrs []metric.RecordOption
}

func (s *lockSets) attrs() []attribute.KeyValue {
	attrs := clientAttrs(s.id.client)
	if s.id.name != "" {
		attrs = append(attrs, attribute.String("rowlock.lock", words.Text(s.id.name)))
	}
	return attrs
}

// opAttrs finds the attributes of an op; nil: it is not one of rowlock.Ops. There are so few that
// to compare costs less than to hash.
func (s *lockSets) opAttrs(op string) []metric.RecordOption {
	for i := range s.ops {
		if s.ops[i].op == op {
			return s.ops[i].attrs
		}
	}
	return nil
}

// knownSets are the lockSets that were made. Events read them without a lock: the map is never
// changed, another takes its place. There are at most maxLocks names.
type knownSets struct {
	all atomic.Pointer[map[lockID]*lockSets]

	// The last ones that were asked for, with a name and without: the next event is often of the
	// same lock, and calls of the store have no name.
	named, unnamed atomic.Pointer[lockSets]
}

// find finds those of a lock; nil: there are none yet.
func (k *knownSets) find(id lockID) *lockSets {
	last := &k.named
	if id.name == "" {
		last = &k.unnamed
	}
	if s := last.Load(); s != nil && s.id == id {
		return s
	}
	all := k.all.Load()
	if all == nil {
		return nil
	}
	s := (*all)[id]
	if s != nil {
		last.Store(s)
	}
	return s
}

// add adds those of a lock; one caller at a time.
func (k *knownSets) add(s *lockSets) {
	all := make(map[lockID]*lockSets)
	if before := k.all.Load(); before != nil {
		all = maps.Clone(*before)
	}
	all[s.id] = s
	k.all.Store(&all)
}

// setsOf finds those of a name, or makes them, with the counters of its losses, all at 0:
// without that a rate would miss the first loss.
func (ob *observer) setsOf(client, name string) *lockSets {
	id := lockID{client, name}
	if s := ob.known.find(id); s != nil {
		return s
	}
	ob.mu.Lock()
	defer ob.mu.Unlock()
	if !ob.locks[name] {
		if len(ob.locks) >= maxLocks {
			id.name = otherLocks
		} else {
			ob.locks[name] = true
		}
	}
	if s := ob.known.find(id); s != nil {
		return s
	}
	s := &lockSets{id: id}
	set := func(attrs ...attribute.KeyValue) metric.MeasurementOption {
		return metric.WithAttributeSet(attribute.NewSet(attrs...))
	}
	granted := func(local bool) []metric.RecordOption {
		return []metric.RecordOption{set(append(s.attrs(), attribute.String("rowlock.outcome", "granted"), attribute.Bool("rowlock.local", local))...)}
	}
	s.granted, s.locals = granted(false), granted(true)
	s.released = []metric.RecordOption{set(append(s.attrs(), attribute.String("rowlock.end", "released"))...)}
	s.renewed = []metric.RecordOption{set(clientAttrs(client)...)}
	for _, op := range rowlock.Ops() {
		s.ops = append(s.ops, opSet{op, []metric.RecordOption{set(append(clientAttrs(client, ob.system()...), attribute.String("rowlock.op", op))...)}})
	}
	for _, r := range rowlock.Reasons() {
		ob.losses.Add(context.Background(), 0, set(append(s.attrs(), attribute.String("rowlock.reason", string(r)))...))
	}
	ob.known.add(s)
	return s
}
