package mongolock

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/testserver"
	"github.com/rowlock/rowlock/locktest"
	"github.com/rowlock/rowlock/mongo/internal/command"
	"github.com/rowlock/rowlock/mongo/internal/document"
)

// Documents that no version of the library writes, as somebody makes them by hand
// at night. Whatever is in them: no panic, no hang, no token that is not above the
// document's, and either the right outcome or an error that names the key and says
// what to do. The other keys of a command do not suffer.

// aligned is a plain document whose hold expired a minute ago.
func aligned(key string) map[string]any {
	return map[string]any{
		"name": key, "hold": document.Binary([]byte("0123456789abcdef")), "owner": "somebody:1", "token": int64(1 << 59),
		"acquiredAt": time.Now().Add(-2 * time.Minute), "expiresAt": time.Now().Add(-time.Minute), "fenced": gone,
		"keepUntil": gone, "forced": gone, "line": gone, "passed": gone,
	}
}

// gone is the value of a field that is not there.
var gone = struct{}{}

func decimal(s string) bson.Decimal128 {
	d, err := bson.ParseDecimal128(s)
	if err != nil {
		panic(err)
	}
	return d
}

// anyValues are values of every type.
var anyValues = []any{
	gone, nil, true, false, int32(-1), int32(7), int64(0), int64(-1), int64(math.MaxInt64), int64(math.MinInt64), 0.0, -1.5, 1e18, 9.3e18, -1e300,
	math.NaN(), math.Inf(1), math.Inf(-1), decimal("12345"), decimal("9e40"), decimal("NaN"), decimal("Infinity"),
	"", "0", "now", "$owner", strings.Repeat("x", 1<<20), "\xff\xfe", "a\x00\n'\x1b", bson.A{}, bson.A{int64(1), nil}, bson.D{}, bson.D{{Key: "$add", Value: 1}},
	bson.Binary{}, bson.Binary{Data: make([]byte, 15)}, bson.Binary{Data: make([]byte, 16)}, bson.Binary{Data: make([]byte, 17)},
	bson.Binary{Subtype: 4, Data: []byte("0123456789abcdef")}, bson.NewObjectID(), bson.DateTime(0), bson.DateTime(-1 << 40), bson.DateTime(math.MaxInt64), bson.DateTime(math.MinInt64),
	bson.Timestamp{T: math.MaxUint32, I: 1}, bson.Regex{Pattern: "a", Options: ""}, bson.JavaScript("1"), bson.Symbol("s"), bson.MinKey{}, bson.MaxKey{}, bson.Undefined{},
}

// more values for fields of a certain type.
var special = map[string][]any{
	"token": {int64(driver.MaxToken), int64(driver.MaxToken + 1), int64(driver.MaxToken - 1024), int64(driver.MaxToken - 1023), int64(math.MaxInt64 - 1),
		math.Nextafter(1<<63, 0), float64(1 << 63), float64(1 << 60)},
	"expiresAt": {time.Now().Add(time.Hour), time.Now().Add(290 * 365 * 24 * time.Hour), time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC), time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC)},
	"keepUntil": {time.Now().Add(time.Hour), time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)},
}

var fieldNames = []string{"name", "hold", "owner", "token", "acquiredAt", "expiresAt", "fenced", "keepUntil", "forced", "line", "passed"}

// corruptLab is a client that meets corrupt documents.
type corruptLab struct {
	s      *Store
	c      *rowlock.Client
	beside []*rowlock.Lease // held by c throughout
}

func newCorruptLab(t *testing.T) *corruptLab {
	s := shared(t)
	a := &corruptLab{s: s, c: locker(t, s, rowlock.Options{TTL: 30 * time.Second, Handoff: -1})}
	for _, k := range []string{"aaa", "zzz"} {
		a.beside = append(a.beside, guarded(t, a.c, k))
	}
	return a
}

func (a *corruptLab) put(t testing.TB, collection, key string, fields map[string]any) {
	t.Helper()
	doc := bson.D{{Key: "_id", Value: document.KeyID(key)}}
	for _, n := range append(fieldNames, "lsid", "n") {
		if v, ok := fields[n]; ok && v != gone {
			doc = append(doc, bson.E{Key: n, Value: v})
		}
	}
	if _, err := a.s.db.Collection(collection).ReplaceOne(context.Background(), document.ByKey(key), doc, options.Replace().SetUpsert(true)); err != nil {
		t.Fatalf("%v: %v", doc, err)
	}
}

func (a *corruptLab) remove(t testing.TB, keys ...string) {
	t.Helper()
	for _, k := range keys {
		for _, c := range []string{a.s.leases, a.s.fences} {
			_, err := a.s.db.Collection(c).DeleteOne(context.Background(), document.ByKey(k))
			must(t, err)
		}
	}
}

// state is the document's token, if it is a number that a grant must be above, and
// whether the server takes the key for free.
func (a *corruptLab) state(t testing.TB, key string) (token float64, isFree bool) {
	t.Helper()
	cursor, err := a.s.db.Collection(a.s.leases).Aggregate(context.Background(), bson.A{
		document.Op("$match", document.ByKey(key)),
		document.Op("$project", bson.D{
			{Key: "free", Value: document.Free},
			{Key: "token", Value: document.Op("$convert", bson.D{{Key: "input", Value: document.Op("$cond", bson.A{document.Op("$isNumber", "$token"), "$token", 0})}, {Key: "to", Value: "double"}, {Key: "onError", Value: 0.0}})},
		}),
	})
	must(t, err)
	var docs []struct {
		Token float64
		Free  bool
	}
	must(t, cursor.All(context.Background(), &docs))
	if len(docs) == 0 {
		return 0, true
	}
	return docs[0].Token, docs[0].Free
}

// says: an error names the key, is short, and says what to do unless it is one of
// those that have a meaning of their own.
func says(t testing.TB, what, key string, err error) {
	t.Helper()
	if err == nil || command.Blocked(err) || command.MajorityLate(err) || command.Silent(err) { // a loaded server
		return
	}
	if !strings.Contains(err.Error(), fmt.Sprintf("%q", key)) || len(err.Error()) > 2000 {
		t.Errorf("%s: the error does not name the key %q, or is long: %.300v", what, key, err)
	}
	for _, known := range []error{rowlock.ErrHeld, rowlock.ErrReleased} {
		if errors.Is(err, known) {
			return
		}
	}
	if !strings.Contains(err.Error(), "by hand") {
		t.Errorf("%s: the error does not say what is wrong and what to do: %.300v", what, err)
	}
}

func plausible(t testing.TB, i rowlock.Info, key string) {
	t.Helper()
	if i.Key != key || i.Token < 0 || i.Left < 0 || i.Held != (i.Left > 0) || len(i.Owner) > 255 {
		t.Errorf("shown as %+v", i)
	}
}

// visit runs every operation on the key of a corrupt document.
func (a *corruptLab) visit(t *testing.T, key string, fields map[string]any) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testserver.Patience(t))
	defer cancel()
	a.put(t, a.s.leases, key, fields)

	// Looking.
	if infos, err := a.s.Inspect(ctx, []string{"aaa", key, "zzz"}); err != nil {
		t.Errorf("inspect: %v", err)
	} else {
		plausible(t, infos[1], key)
		if !infos[0].Held || !infos[2].Held {
			t.Errorf("P15: inspect of the neighbours: %+v", infos)
		}
	}
	if infos, err := a.s.List(ctx, "", "", 100); err != nil || len(infos) < 2 {
		t.Errorf("list: %v, %v", infos, err)
	} else {
		for _, i := range infos {
			plausible(t, i, i.Key)
		}
	}

	// Taking.
	a.try(t, ctx, key, func() (*rowlock.Lease, error) { return a.c.TryAcquire(ctx, key) })
	a.put(t, a.s.leases, key, fields)
	a.try(t, ctx, key, func() (lease *rowlock.Lease, err error) {
		slow := false // a loaded server did not answer, and the key may be held by what was given up
		for d := 300 * time.Millisecond; ; d *= 4 {
			short, cancel := context.WithTimeout(ctx, d) // if the key is held, it would be for ever
			lease, err = a.c.Acquire(short, key, rowlock.Guarded(), rowlock.MaxHold(time.Hour))
			cancel()
			slow = slow || err != nil && err.Error() == fmt.Sprintf("acquire %q: %v", key, context.DeadlineExceeded)
			if err == nil || !slow || d > 20*time.Second {
				return lease, err
			}
		}
	})

	// Waiting.
	a.put(t, a.s.leases, key, fields)
	_, isFree := a.state(t, key)
	results, err := a.s.Acquire(ctx, []driver.Request{standerOf(key)})
	says(t, "acquire by a waiter", key, err)
	if err == nil && (results[0].Status == driver.Granted) != isFree {
		t.Errorf("acquire by a waiter: %v, though the document is free: %v", results[0].Status, isFree)
	}
	if i := inspect(t, a.s, key); err == nil && !isFree && i.Waiting != 1 {
		t.Errorf("a waiter was refused, and is not shown: %+v", i)
	}

	// In one command with others.
	a.put(t, a.s.leases, key, fields)
	a.batch(t, ctx, key, fields)

	// By force, and reaping.
	a.put(t, a.s.leases, key, fields)
	before, _ := a.state(t, key)
	_, err = a.s.ForceRelease(ctx, key)
	says(t, "force release", key, err)
	after, isFree := a.state(t, key)
	if after < before {
		locktest.Breach(t, "P3", "force release: token %v after %v", after, before)
	}
	if err == nil && !isFree {
		t.Errorf("force release: the key is not free")
	}
	a.put(t, a.s.leases, key, fields)
	if _, err := a.s.Reap(ctx, time.Hour); err != nil {
		t.Errorf("reap: %v", err)
	}
	a.remove(t, key)
}

// try takes the key and, if it was granted, does with the lease what can be done.
func (a *corruptLab) try(t *testing.T, ctx context.Context, key string, take func() (*rowlock.Lease, error)) {
	t.Helper()
	before, isFree := a.state(t, key)
	lease, err := take()
	switch {
	case err == nil && !isFree:
		t.Errorf("P1: granted, token %d, though the document is not free", lease.Token())
	case errors.Is(err, rowlock.ErrHeld) && isFree:
		t.Errorf("refused, though the document is free: %.300v", err)
	}
	says(t, "acquire", key, err)
	if err != nil {
		if h := (*rowlock.HeldError)(nil); errors.As(err, &h) && h.Left < 0 {
			t.Errorf("refused: %+v", h)
		}
		return
	}
	if token := lease.Token(); token <= 0 || token > driver.MaxToken || float64(token) <= before {
		locktest.Breach(t, "P3", "granted token %d after %v", token, before)
	}
	hold, err := rowlock.BeginGuard(lease, a.s)
	must(t, err)
	if hold.Guarded {
		nothing := func(context.Context) error { return nil }
		run := newID().String()
		if err := a.s.InTx(ctx, lease, nothing); err != nil {
			t.Errorf("InTx: %v", err)
		}
		if err := a.s.Once(ctx, lease, run, nothing); err != nil {
			t.Errorf("Once: %v", err)
		}
		if err := a.s.Once(ctx, lease, run, nothing); !errors.Is(err, rowlock.ErrAlreadyRan) {
			t.Errorf("Once again: %v", err)
		}
	}
	if err := lease.Renew(ctx); err != nil {
		t.Errorf("renew: %v", err)
	}
	if err := lease.Release(ctx); err != nil {
		t.Errorf("release: %v", err)
	}
}

// batch sends the key with others, in each kind of command.
func (a *corruptLab) batch(t *testing.T, ctx context.Context, key string, fields map[string]any) {
	t.Helper()
	reqs := []driver.Request{request("a-" + key), request(key), request("z-" + key)}
	for _, k := range []string{reqs[0].Key, reqs[2].Key} {
		a.put(t, a.s.leases, k, aligned(k))
	}
	granted := func(r driver.Result, _ error) bool { return r.Status == driver.Granted }
	var results []driver.Result
	var err error
	late := func(r driver.Result) bool { return command.Silent(r.Err) }
	for range 10 { // on a loaded machine a connection may seem dead
		if results, err = a.s.Acquire(ctx, reqs); !command.Silent(err) && !slices.ContainsFunc(results, late) {
			break
		}
	}
	if err != nil {
		t.Errorf("P15: acquire of three keys, of which one is corrupt: %v", err)
		return
	}
	holds := make([]driver.Hold, len(reqs))
	for i, r := range results {
		holds[i] = holdOf(reqs[i], r)
		holds[i].MaxHold = time.Hour
		switch {
		case i != 1 && !granted(r, nil):
			t.Errorf("P15: acquire of a neighbour: %v: %v", r.Status, r.Err)
		case granted(r, nil) && (r.Token <= 0 || r.Token > driver.MaxToken):
			t.Errorf("P3: granted token %d", r.Token)
		case r.Status == driver.Unknown:
			says(t, "acquire in a batch", key, r.Err)
		}
	}
	if results[1].Status == driver.Granted {
		// While it is held, all but the hold is changed by hand.
		changed := make(map[string]any)
		for n, v := range fields {
			changed[n] = v
		}
		changed["hold"] = document.HoldID(holds[1].ID)
		a.put(t, a.s.leases, key, changed)
	} else {
		copy(holds[1].ID[:], "0123456789abcdef")
	}
	for _, step := range []struct {
		name string
		call func(context.Context, []driver.Hold) ([]driver.Result, error)
		good driver.Status
	}{{"renew", a.s.Renew, driver.Alive}, {"release", a.s.Release, driver.Released}} {
		results, err := step.call(ctx, holds)
		if err != nil {
			t.Errorf("P15: %s of three keys, of which one is corrupt: %v", step.name, err)
			continue
		}
		for i, r := range results {
			switch {
			case i != 1 && r.Status != step.good:
				t.Errorf("P15: %s of a neighbour: %v: %v", step.name, r.Status, r.Err)
			case r.Status == driver.Unknown:
				says(t, step.name+" in a batch", key, r.Err)
			case r.Left < 0:
				t.Errorf("%s: left %v", step.name, r.Left)
			}
		}
	}
	holds[1].Undo = true
	if _, err := a.s.Release(ctx, holds[1:2]); err != nil {
		says(t, "undo", key, err)
	}
	a.remove(t, reqs[0].Key, reqs[2].Key)
}

// TestCorruptDocuments: each field with each value by itself, and many at random.
func TestCorruptDocuments(t *testing.T) {
	testserver.Long(t)
	for part := range 3 {
		t.Run(fmt.Sprint(part), func(t *testing.T) {
			t.Parallel()
			a := newCorruptLab(t)
			n := 0
			visit := func(change map[string]any) {
				if n++; n%3 != part {
					return
				}
				key := fmt.Sprintf("%d\x00'$", n)
				fields := aligned(key)
				for k, v := range change {
					fields[k] = v
				}
				failed := t.Failed()
				a.visit(t, key, fields)
				if t.Failed() && !failed {
					t.Errorf("first failure with the document %.1000v", change)
				}
			}
			for _, f := range fieldNames {
				for _, v := range append(anyValues, special[f]...) {
					visit(map[string]any{f: v})
				}
			}
			random, seed := 100, rand.Uint64()
			r := rand.New(rand.NewPCG(seed, 0))
			for range random {
				change := make(map[string]any)
				for _, f := range fieldNames {
					if values := append(anyValues, special[f]...); r.IntN(3) == 0 {
						change[f] = values[r.IntN(len(values))]
					}
				}
				visit(change)
			}
			for _, lease := range a.beside {
				if err := lease.Err(); err != nil {
					t.Errorf("P15: a lease of another key: %v", err)
				}
			}
			if t.Failed() {
				t.Logf("seed %d", seed)
			}
		})
	}
}

// TestCorruptFences: a fence that was changed by hand lets no guarded transaction
// commit that a right one would not, and the error says what is wrong.
func TestCorruptFences(t *testing.T) {
	t.Parallel()
	a := newCorruptLab(t)
	for n, v := range append(anyValues, special["token"]...) {
		for _, f := range []string{"token", "lsid", "n"} {
			key := fmt.Sprint("fence ", f, n)
			a.put(t, a.s.fences, key, map[string]any{"token": int64(1), f: v})
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			lease, err := a.c.Acquire(ctx, key, rowlock.Guarded())
			if err != nil {
				says(t, "acquire", key, err)
			} else {
				calls := 0
				if err := a.s.InTx(ctx, lease, func(context.Context) error { calls++; return nil }); err != nil {
					says(t, "InTx", key, err)
				} else if calls != 1 {
					t.Errorf("called %d times", calls)
				}
				must(t, lease.Release(ctx))
			}
			cancel()
			if t.Failed() {
				t.Fatalf("with %s %v", f, v)
			}
		}
	}
}

// TestP10_ReapOfTheLongestTime: the longest duration that Go has is more than any
// document is old, so nothing is reaped, and no mark of a run.
func TestP10_ReapOfTheLongestTime(t *testing.T) {
	t.Parallel()
	a := newCorruptLab(t)
	ctx := t.Context()
	must(t, a.s.Once(ctx, a.beside[0], "run", func(context.Context) error { return nil }))
	for _, d := range []time.Duration{math.MaxInt64, math.MaxInt64 - 998, 150 * 365 * 24 * time.Hour} {
		if n, err := a.s.Reap(ctx, d); err != nil || n > 0 {
			t.Errorf("P10: reap of documents older than %v: %d, %v", d, n, err)
		}
		if n, err := a.s.ReapRuns(ctx, d); err != nil || n > 0 {
			t.Errorf("P13: reap of marks older than %v: %d, %v", d, n, err)
		}
	}
	for _, d := range []time.Duration{0, -1, math.MinInt64} {
		_, err := a.s.Reap(ctx, d)
		wants(t, fmt.Sprintf("reap of documents older than %v", d), err, rowlock.ErrInvalid)
		_, err = a.s.ReapRuns(ctx, d)
		wants(t, fmt.Sprintf("reap of marks older than %v", d), err, rowlock.ErrInvalid)
	}
	for _, lease := range a.beside {
		if err := lease.Renew(ctx); err != nil {
			t.Errorf("P10: %v", err)
		}
	}
}

// TestCorruptMarks: a mark that was changed by hand is a mark.
func TestCorruptMarks(t *testing.T) {
	t.Parallel()
	a := newCorruptLab(t)
	ctx := t.Context()
	for n, v := range anyValues {
		for _, f := range []string{"token", "at"} {
			run := fmt.Sprint(f, n)
			doc := bson.D{{Key: "_id", Value: runID("aaa", run)}}
			if v != gone {
				doc = append(doc, bson.E{Key: f, Value: v})
			}
			_, err := a.s.db.Collection(a.s.runs).InsertOne(ctx, doc)
			must(t, err)
			err = a.s.Once(ctx, a.beside[0], run, func(context.Context) error { t.Error("P13: run again"); return nil })
			if !errors.Is(err, rowlock.ErrAlreadyRan) {
				t.Errorf("once, a mark with %s %v: %v", f, v, err)
			}
		}
	}
	if _, err := a.s.ReapRuns(ctx, time.Hour); err != nil {
		t.Errorf("reap of marks: %v", err)
	}
}
