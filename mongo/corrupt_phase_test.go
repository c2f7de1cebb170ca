package mongolock

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/mongo/internal/command"
	"github.com/rowlock/rowlock/mongo/internal/document"
)

// TestCorruptPhases: each field of a phase with each value by hand. Whatever is in it: no panic, no
// token that is not above those before, and either an outcome or an error that names the key and
// says what to do; a key beside it in a command does not suffer.
func TestCorruptPhases(t *testing.T) {
	t.Parallel()
	const parts = 4 // side by side, for they wait for the server
	for part := range parts {
		t.Run(fmt.Sprint(part), func(t *testing.T) {
			t.Parallel()
			corruptPhases(t, part, parts)
		})
	}
}

// corruptPhases is one part of the cases.
func corruptPhases(t *testing.T, part, parts int) {
	s := shared(t)
	const token = int64(1 << 58)
	id := newID()
	phase := func(field string, v any) bson.D {
		past := time.Now().Add(-time.Minute)
		doc := bson.D{{Key: "_id", Value: document.KeyID("k")}, {Key: "name", Value: "k"}, {Key: "hold", Value: token}, {Key: "owner", Value: "somebody:1"},
			{Key: "token", Value: token + 4096}, {Key: "acquiredAt", Value: past}, {Key: "expiresAt", Value: past},
			{Key: "holds", Value: bson.A{bson.D{{Key: "h", Value: document.HoldID(id)}, {Key: "a", Value: past}, {Key: "e", Value: past}, {Key: "o", Value: "somebody:1"}, {Key: "s", Value: int32(1)}, {Key: "t", Value: token + 1024}}}}}
		if field == "line" && v != gone {
			return append(doc, bson.E{Key: "line", Value: v})
		}
		for i := range doc {
			if doc[i].Key == field {
				if doc[i].Value = v; v == gone {
					return slices.Delete(doc, i, i+1)
				}
			}
		}
		return doc
	}
	in := func(field string, v any) any {
		return bson.A{bson.D{{Key: "h", Value: document.HoldID(id)}, {Key: field, Value: v}}}
	}
	type corrupt struct {
		field string
		value any
	}
	var cases []corrupt
	for _, v := range anyValues {
		cases = append(cases, corrupt{"hold", v}, corrupt{"holds", v}, corrupt{"line", v})
		if v != gone {
			cases = append(cases, corrupt{"holds", bson.A{v}})
			for _, f := range []string{"h", "a", "e", "o", "s", "t", "k"} {
				cases = append(cases, corrupt{"holds", in(f, v)})
			}
		}
	}
	if testing.Short() {
		cases = cases[:50]
	}
	leases := s.db.Collection(s.leases)
	others := 0
	for i, c := range cases {
		if i%parts != part {
			continue
		}
		if _, err := leases.DeleteOne(t.Context(), document.ByKey("k")); err != nil {
			t.Fatal(err)
		}
		if _, err := leases.InsertOne(t.Context(), phase(c.field, c.value)); err != nil {
			continue // no document at all
		}
		settled := func(step string, results []driver.Result, err error) {
			t.Helper()
			if err == nil && results[0].Status == driver.Unknown {
				err = results[0].Err
			}
			if err != nil {
				if !noTime(err) && !command.Silent(err) {
					says(t, step, "k", err)
				}
				return
			}
			if r := results[0]; r.Status == driver.Granted && r.Token < token {
				t.Errorf("P20: %s with %s %v: token %d", step, c.field, c.value, r.Token)
			}
		}
		// A step with another key is sent again while a busy server answers too late for that.
		inTime := func(call func() ([]driver.Result, error)) (results []driver.Result, err error) {
			for range 20 {
				results, err = call()
				late := err
				if err == nil {
					late = results[1].Err
				}
				if late == nil || !noTime(late) && !command.Silent(late) {
					break
				}
			}
			return results, err
		}
		// Another key in the same command does not suffer.
		besides := func(step string, q driver.Request, want driver.Status, results []driver.Result, err error) {
			t.Helper()
			if err == nil && results[1].Status != want || err != nil && !noTime(err) && !command.Silent(err) {
				t.Errorf("P15: %s of mode %v with %s %v: the key beside: %+v, %v", step, q.Mode, c.field, c.value, results, err)
			}
		}
		h := driver.Hold{Key: "k", ID: id, Mode: driver.Slot, Slot: 1, Phase: token, Stored: token + 1024, Token: token + 1024, TTL: time.Minute, MaxHold: time.Hour}
		results, err := s.Renew(t.Context(), []driver.Hold{h})
		settled("renew", results, err)
		for _, q := range []driver.Request{readerOf("k"), slotOf("k", 4), request("k"), standerOf("k")} {
			results, err = s.Acquire(patient(t), []driver.Request{q})
			settled("acquire of mode "+q.Mode.String(), results, err)
			if err == nil && results[0].Status == driver.Granted {
				results, err = s.Release(patient(t), []driver.Hold{holdOf(q, results[0])})
				settled("release", results, err)
			}
			other := q // a key of its own, for one that a busy server did not release in time stays held
			others++
			q.ID, other.Key, other.ID = newID(), fmt.Sprint("other", others), newID()
			results, err = inTime(func() ([]driver.Result, error) { return s.Acquire(patient(t), []driver.Request{q, other}) })
			settled("acquire of two of mode "+q.Mode.String(), results, err)
			besides("acquire", q, driver.Granted, results, err)
			if err != nil || results[1].Status != driver.Granted {
				continue
			}
			holds := []driver.Hold{h, holdOf(other, results[1])}
			results, err = inTime(func() ([]driver.Result, error) { return s.Renew(t.Context(), holds) })
			settled("renewal of two", results, err)
			besides("renewal", q, driver.Alive, results, err)
			holds[0] = driver.Hold{Key: "k", ID: q.ID, Mode: q.Mode, Slot: -1, TTL: time.Minute, Undo: true}
			results, err = inTime(func() ([]driver.Result, error) { return s.Release(patient(t), holds) })
			settled("undo", results, err)
			besides("release", q, driver.Released, results, err)
		}
		results, err = s.Release(patient(t), []driver.Hold{h})
		settled("release", results, err)
		infos, err := s.Inspect(t.Context(), []string{"k", "beside"})
		if err != nil && !noTime(err) || err == nil && (infos[0].Left < 0 || infos[0].Readers < 0 || infos[0].FreeSlot < 0) {
			t.Errorf("inspect with %s %v: %+v, %v", c.field, c.value, infos, err)
		}
	}
}
