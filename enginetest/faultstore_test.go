package enginetest

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/memory"
)

// faultStore is the fault store of this package's tests: the memory store behind a network
// that misbehaves on demand. A fault decides what happens to one call.
type faultStore struct {
	*memory.Store
	limits func(*driver.Limits) // changes them; nil: those of the memory store
	why    error                // what Explain says

	mu    sync.Mutex
	fault func(c call) verdict
	calls []call
	count map[string]int // by op
	skew  time.Duration  // added to the clock of trust: the process stood still
}

// call is one call of the engine.
type call struct {
	ctx  context.Context
	op   string // acquire, renew, release, inspect
	keys []string
	ids  []driver.HoldID
	reqs []driver.Request // of an acquire
	hold []driver.Hold    // of a renew or release
	n    int              // how many calls of this op came before
	at   time.Duration
}

// verdict says what happens to a call. The zero verdict is a good network.
type verdict struct {
	before func(context.Context) error // comes first; its error is the answer
	err    error                       // answer this instead
	apply  bool                        // with err, hang or late: the server executes the call all the same
	delay  time.Duration               // before the server executes it
	slow   time.Duration               // the reply takes this long
	hang   bool                        // no reply: the call returns when its context ends
	late   time.Duration               // with hang and apply: the server executes it only after this time
	answer []driver.Result
	change func([]driver.Result) // what the server answered
}

func newFaultStore() *faultStore { return &faultStore{Store: memory.New()} }

// withQueue is a fault store without lines: its server keeps those who wait (driver.Queuer).
func withQueue() *faultStore {
	f := newFaultStore()
	f.limits = func(l *driver.Limits) { l.Line, l.Queue = false, true }
	return f
}

// AcquireWait is an op "wait".
func (f *faultStore) AcquireWait(ctx context.Context, r driver.Request, begin func()) (driver.Result, error) {
	results, err := f.pass(ctx, call{op: "wait", keys: []string{r.Key}, ids: []driver.HoldID{r.ID}, reqs: []driver.Request{r}}, func(ctx context.Context) ([]driver.Result, error) {
		place := new(int)
		f.inServer(r.Key, func(waiting []*int) []*int { return append(waiting, place) })
		defer f.inServer(r.Key, func(waiting []*int) []*int { i := slices.Index(waiting, place); return slices.Delete(waiting, i, i+1) })
		for {
			first := false
			f.inServer(r.Key, func(waiting []*int) []*int { first = waiting[0] == place; return waiting })
			if first {
				begin()
				results, err := f.Store.Acquire(ctx, []driver.Request{r})
				if err != nil || results[0].Status != driver.Held || results[0].Shared {
					return results, err
				}
			}
			if sleep(ctx, time.Millisecond) != nil {
				return nil, &driver.Error{NotApplied: true, Err: ctx.Err()}
			}
		}
	})
	if err != nil {
		return driver.Result{}, err
	}
	return results[0], nil
}

// inServer changes who waits for a key in the server.
func (f *faultStore) inServer(key string, change func([]*int) []*int) {
	serverQueues.Lock()
	defer serverQueues.Unlock()
	k := serverKey{f.Store, key}
	if serverQueues.waiting[k] = change(serverQueues.waiting[k]); len(serverQueues.waiting[k]) == 0 {
		delete(serverQueues.waiting, k)
	}
}

type serverKey struct {
	server *memory.Store
	key    string
}

var serverQueues = struct {
	sync.Mutex
	waiting map[serverKey][]*int
}{waiting: make(map[serverKey][]*int)}

func (f *faultStore) Limits() driver.Limits {
	l := f.Store.Limits()
	if f.limits != nil {
		f.limits(&l)
	}
	return l
}

// Explain implements driver.Explainer.
func (f *faultStore) Explain() error { return f.why }

func (f *faultStore) Now() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.Store.Now() + f.skew
}

// freeze lets the clock of trust jump, as a process finds it that was stopped.
func (f *faultStore) freeze(d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.skew += d
}

func (f *faultStore) set(fault func(c call) verdict) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fault = fault
}

func (f *faultStore) seen(op string) (calls []call) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.calls {
		if c.op == op {
			calls = append(calls, c)
		}
	}
	return calls
}

// all are the calls of every op, so far.
func (f *faultStore) all() []call {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.calls)
}

// pass runs one call through the fault.
func (f *faultStore) pass(ctx context.Context, c call, do func(context.Context) ([]driver.Result, error)) ([]driver.Result, error) {
	c.ctx, c.at = ctx, f.Store.Now()
	f.mu.Lock()
	if f.count == nil {
		f.count = make(map[string]int)
	}
	c.n = f.count[c.op]
	f.count[c.op]++
	f.calls = append(f.calls, c)
	fault := f.fault
	f.mu.Unlock()
	var v verdict
	if fault != nil {
		v = fault(c)
	}
	server := context.WithoutCancel(ctx)
	if v.before != nil {
		if err := v.before(ctx); err != nil {
			return nil, err
		}
	}
	if v.delay > 0 && sleep(ctx, v.delay) != nil {
		return nil, ctx.Err()
	}
	switch {
	case v.answer != nil:
		return v.answer, nil
	case v.err != nil:
		if v.apply {
			do(server)
		}
		return nil, v.err
	case v.hang:
		if v.apply && v.late > 0 {
			time.AfterFunc(v.late, func() { do(server) })
		} else if v.apply {
			do(server)
		}
		<-ctx.Done()
		return nil, ctx.Err()
	}
	results, err := do(server)
	if v.change != nil {
		v.change(results)
	}
	if v.slow > 0 && sleep(ctx, v.slow) != nil {
		return nil, ctx.Err()
	}
	return results, err
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (f *faultStore) Acquire(ctx context.Context, reqs []driver.Request) ([]driver.Result, error) {
	c := call{op: "acquire", reqs: slices.Clone(reqs)}
	for _, r := range reqs {
		c.keys, c.ids = append(c.keys, r.Key), append(c.ids, r.ID)
	}
	return f.pass(ctx, c, func(ctx context.Context) ([]driver.Result, error) { return f.Store.Acquire(ctx, reqs) })
}

func holdsCall(op string, holds []driver.Hold) call {
	c := call{op: op, hold: slices.Clone(holds)}
	for _, h := range holds {
		c.keys, c.ids = append(c.keys, h.Key), append(c.ids, h.ID)
	}
	return c
}

func (f *faultStore) Renew(ctx context.Context, holds []driver.Hold) ([]driver.Result, error) {
	return f.pass(ctx, holdsCall("renew", holds), func(ctx context.Context) ([]driver.Result, error) { return f.Store.Renew(ctx, holds) })
}

func (f *faultStore) Release(ctx context.Context, holds []driver.Hold) ([]driver.Result, error) {
	return f.pass(ctx, holdsCall("release", holds), func(ctx context.Context) ([]driver.Result, error) {
		results, err := f.Store.Release(ctx, holds)
		for i := range results {
			results[i].Final = results[i].Status == driver.Released // a network may still carry the attempt
		}
		return results, err
	})
}

func (f *faultStore) Inspect(ctx context.Context, keys []string) ([]driver.Info, error) {
	var infos []driver.Info
	_, err := f.pass(ctx, call{op: "inspect", keys: keys}, func(ctx context.Context) (_ []driver.Result, err error) {
		infos, err = f.Store.Inspect(ctx, keys)
		return nil, err
	})
	return infos, err
}

// Look is an op "inspect", as the other probe.
func (f *faultStore) Look(ctx context.Context, entries []driver.Entry) ([]driver.View, error) {
	c := call{op: "inspect"}
	for _, e := range entries {
		c.keys, c.ids = append(c.keys, e.Key), append(c.ids, e.ID)
	}
	var views []driver.View
	_, err := f.pass(ctx, c, func(ctx context.Context) (_ []driver.Result, err error) {
		views, err = f.Store.Look(ctx, entries)
		return nil, err
	})
	return views, err
}

// List is an op "list", ForceRelease an op "force".
func (f *faultStore) List(ctx context.Context, prefix, after string, limit int) ([]driver.Info, error) {
	var infos []driver.Info
	_, err := f.pass(ctx, call{op: "list"}, func(ctx context.Context) (_ []driver.Result, err error) {
		infos, err = f.Store.List(ctx, prefix, after, limit)
		return nil, err
	})
	return infos, err
}

func (f *faultStore) ForceRelease(ctx context.Context, key string) (driver.Info, error) {
	var info driver.Info
	_, err := f.pass(ctx, call{op: "force", keys: []string{key}}, func(ctx context.Context) (_ []driver.Result, err error) {
		info, err = f.Store.ForceRelease(ctx, key)
		return nil, err
	})
	return info, err
}

// on makes a fault for calls of one op only.
func on(op string, v verdict) func(call) verdict {
	return func(c call) verdict {
		if c.op == op {
			return v
		}
		return verdict{}
	}
}
