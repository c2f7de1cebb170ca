package mongolock

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/order"
	"github.com/rowlock/rowlock/internal/split"
	"github.com/rowlock/rowlock/mongo/internal/command"
	"github.com/rowlock/rowlock/mongo/internal/document"
)

// nasty are strings that mean something to somebody between us and the collection.
var nasty = []string{"", "a", "A", "a ", "\x00", "a\x00b", "$", "$$NOW", "$hold", "a.b", "{}", "\xff\xfe", "é", "e\u0301", "layout", strings.Repeat("x", 255), strings.Repeat("\xff", 255)}

// idle is a Store on a server that is never asked.
func idle(f *testing.F) *Store {
	client, err := mongo.Connect(options.Client().ApplyURI("mongodb://127.0.0.1:1/"))
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = client.Disconnect(context.Background()) })
	s, err := New(client.Database("app").Collection("locks"), Options{})
	if err != nil {
		f.Fatal(err)
	}
	return s
}

// FuzzCommands: in the commands on a key it comes back byte for byte, and what comes
// from the caller stands where no server takes it for an expression.
func FuzzCommands(f *testing.F) {
	for i, k := range nasty {
		f.Add(k, nasty[(i+4)%len(nasty)], []byte(k), int64(i))
		f.Add(k, k, []byte{1}, int64(math.MaxInt64)-int64(i))
	}
	s := idle(f)
	f.Fuzz(func(t *testing.T, key, owner string, idBytes []byte, ttl int64) {
		if err := validKey(key); err != nil {
			if !errors.Is(err, driver.ErrInvalid) || len(key) > 0 && len(key) <= driver.MaxKey {
				t.Errorf("a key of %d bytes: %v", len(key), err)
			}
			return
		}
		if len(key) > driver.MaxKey {
			t.Fatalf("a key of %d bytes is taken", len(key))
		}
		q := driver.Request{Key: key, Owner: owner, TTL: time.Duration(ttl), Keep: time.Duration(ttl)}
		copy(q.ID[:], idBytes)
		h := driver.Hold{Key: key, ID: q.ID, TTL: q.TTL}
		same := func(what string, v bson.RawValue, want []byte) {
			t.Helper()
			if subtype, data, ok := v.BinaryOK(); !ok || subtype != 0 || string(data) != string(want) {
				t.Errorf("%s is %v, want %q", what, v, want)
			}
		}
		raw := func(doc bson.D) bson.Raw {
			t.Helper()
			b, err := bson.Marshal(doc)
			if err != nil {
				t.Fatal(err)
			}
			return b
		}
		take := raw(document.TakeOne(s.leases, q, false))
		same("key", take.Lookup("query", "_id"), []byte(key))
		grant := take.Lookup("update", "0", "$replaceWith", "$cond", "1")
		doc, ok := grant.DocumentOK()
		if !ok {
			t.Fatalf("no grant in %v", take)
		}
		for field, want := range map[string]string{"owner": owner, "name": key} {
			if got, ok := doc.Lookup(field, "$literal").StringValueOK(); !ok || got != want {
				t.Errorf("%s is %q, want %q", field, got, want)
			}
		}
		same("hold", doc.Lookup("hold"), q.ID[:])
		if ms, ok := doc.Lookup("expiresAt", "$add", "1").Int64OK(); !ok || (ms > 0) != (ttl > 0) {
			t.Errorf("a TTL of %v became %d ms", q.TTL, ms)
		}
		same("key", raw(document.EndMany(s.leases, []driver.Hold{h})).Lookup("updates", "0", "q", "_id"), []byte(key))
		same("hold", raw(document.EndOne(s.leases, h)).Lookup("query", "hold"), q.ID[:])
		same("hold", raw(document.Renew(s.leases, []driver.Hold{h})).Lookup("updates", "0", "q", "hold"), q.ID[:])
		same("run", raw(runID(owner, key)).Lookup("run"), []byte(key))
		same("name", raw(runID(owner, key)).Lookup("name"), []byte(owner))
		if r := document.Parse(raw(bson.D{{Key: "_id", Value: document.KeyID(key)}, {Key: "hold", Value: document.HoldID(q.ID)}, {Key: "owner", Value: owner}})); r.Key != key || r.Hold != q.ID || r.Corrupt != "" || r.Owner != owner[:min(len(owner), 255)] {
			t.Errorf("%q came back as %+v", key, r)
		}
	})
}

// FuzzDocuments: whatever a reply or a document has in it, nothing panics, and what a
// caller is told has nothing that wrapped around.
func FuzzDocuments(f *testing.F) {
	for _, name := range []string{"token", "expiresAt", "hold", "now", "_id", "line"} {
		for _, v := range append(anyValues, special[name]...) {
			if v == gone {
				continue
			}
			doc := bson.M{"_id": document.KeyID("k"), "hold": document.Binary([]byte("0123456789abcdef")), "token": int64(1 << 59), "now": bson.DateTime(1_800_000_000_000), "expiresAt": bson.DateTime(1_900_000_000_000)}
			doc[name] = v
			b, err := bson.Marshal(doc)
			if err != nil || len(b) > 10_000 {
				continue
			}
			f.Add(b)
			if name != "token" && name != "hold" {
				continue
			}
			f.Add(b[:len(b)-3])
			if wrapped, err := bson.Marshal(bson.D{{Key: "n", Value: v}, {Key: "cursor", Value: bson.D{{Key: "firstBatch", Value: bson.A{doc, v}}}}}); err == nil {
				f.Add(wrapped)
			}
		}
	}
	f.Add([]byte{})
	f.Add([]byte{5, 0, 0, 0, 0})
	f.Add([]byte{255, 255, 255, 127, 0})
	f.Add([]byte("0000\n0\x00\x03cursor\x00\x00\x00\x00\x00")) // cut off inside of cursor
	s := idle(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		reply := bson.Raw(b)
		_ = command.Matched(reply)
		_ = command.OperationTime(reply)
		docs, _ := command.FirstBatch(reply)
		for _, doc := range append(docs, reply) {
			r := document.Parse(doc)
			i := r.Info(r.Key)
			if i.Token < 0 || i.Left < 0 || i.Held != (i.Left > 0) || len(i.Owner) > 255 {
				t.Fatalf("%v is shown as %+v", doc, i)
			}
			if g := r.Granted(); g.Status == driver.Granted && (g.Token <= 0 || g.Token > driver.MaxToken) {
				t.Fatalf("%v is granted as %+v", doc, g)
			} else if g.Status != driver.Granted && (!driver.IsLasting(g.Err) || driver.IsNotApplied(g.Err)) {
				t.Fatalf("%v: %v", doc, g.Err)
			}
			for _, id := range []driver.HoldID{r.Hold, {}, {1}} {
				if st := document.Fate(r, true, driver.Hold{Key: r.Key, ID: id, Token: 1}); st == driver.Alive && id != r.Hold {
					t.Fatalf("%v: another's hold is %v", doc, st)
				}
			}
			if n := document.Above(r.Token); n <= 0 || n <= r.Token && r.Token <= driver.MaxToken-driver.TokenRange {
				t.Fatalf("the token above %d is %d", r.Token, n)
			}
		}
		for _, err := range []error{mongo.CommandError{Raw: reply, Message: string(b)}, mongo.WriteException{Raw: reply}} {
			_, _, _ = command.ErrorTime(err), split.Stopped(stopOf(err)), command.Hidden(err)
			if e := s.cmd.Fail(t.Context(), "acquire \"k\"", err); !strings.Contains(e.Error(), "app.locks") {
				t.Fatalf("%v", e)
			}
		}
	})
}

// FuzzNames: the name of a collection is refused, or is used as it is; List asks for
// the keys with a prefix and no other; no duration wraps around.
func FuzzNames(f *testing.F) {
	for i, s := range append(nasty, "locks", "_l", "system.users", "0a", strings.Repeat("a", 100), strings.Repeat("a", 101), "\xff\xff", "a\xff") {
		f.Add(s, nasty[i%len(nasty)], int64(math.MaxInt64)-int64(i))
	}
	s := idle(f)
	f.Fuzz(func(t *testing.T, a, b string, d int64) {
		if got, err := New(s.db.Collection(a), Options{}); err != nil {
			if !errors.Is(err, driver.ErrInvalid) {
				t.Errorf("%v", err)
			}
		} else if got.leases != a || strings.ContainsAny(a, "$.\x00 ") || len(a) > 100 {
			t.Errorf("collection %q", got.leases)
		}
		next, ok := order.Successor(a)
		if in := b >= a && (!ok || b < next); in != strings.HasPrefix(b, a) {
			t.Errorf("key %q, prefix %q, successor %q", b, a, next)
		}
		if ms := document.Millis(time.Duration(d)); ms-d/1_000_000 < 0 || ms-d/1_000_000 > 1 {
			t.Errorf("%d ns are %d ms", d, ms)
		}
	})
}
