package mongolock

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/doctor"
	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/testserver"
	"github.com/rowlock/rowlock/mongo/internal/document"
	"github.com/rowlock/rowlock/mongo/internal/schema"
)

var storeCollections = []string{"locks", "locks_fence", "locks_runs", "locks_tx"}

// TestP9_IndexesOfOthers: an index that can refuse documents, or deletes them, is refused on each of the collections at the first use,
// by Check and by Migrate; Doctor finds it with the command that mends it. Any other does no harm.
func TestP9_IndexesOfOthers(t *testing.T) {
	t.Parallel()
	db := database(t, testserver.DSN(t, testserver.Mongo))
	open(t, db, Options{})
	for _, of := range storeCollections {
		indexes := db.Collection(of).Indexes()
		for name, c := range map[string]struct {
			index mongo.IndexModel
			words string
		}{
			"owner_1":         {mongo.IndexModel{Keys: document.Op("owner", 1), Options: options.Index().SetUnique(true)}, "unique"},
			"token_sparse":    {mongo.IndexModel{Keys: document.Op("token", 1), Options: options.Index().SetUnique(true).SetSparse(true).SetName("token_sparse")}, "unique"},
			"expiresAt_1":     {mongo.IndexModel{Keys: document.Op("expiresAt", 1), Options: options.Index().SetExpireAfterSeconds(3600)}, "TTL index"},
			"at_1":            {mongo.IndexModel{Keys: document.Op("at", 1), Options: options.Index().SetExpireAfterSeconds(0)}, "TTL index"},
			"holds_hashed":    {mongo.IndexModel{Keys: document.Op("holds", "hashed")}, "hashed"},
			"hold_2dsphere":   {mongo.IndexModel{Keys: document.Op("hold", "2dsphere")}, "2dsphere"},
			"tenant_1_name_1": {mongo.IndexModel{Keys: bson.D{{Key: "tenant", Value: 1}, {Key: "name", Value: 1}}, Options: options.Index().SetUnique(true)}, "unique"},
		} {
			_, err := indexes.CreateOne(t.Context(), c.index)
			must(t, err)
			unfit(t, db, of+": "+name, `db.`+of+`.dropIndex("`+name+`")`, name, of, c.words)
			must(t, indexes.DropOne(t.Context(), name))
		}
	}
	// name_1, as somebody else may have made it.
	for name, index := range map[string]mongo.IndexModel{
		"other way":    {Keys: document.Op("name", -1), Options: options.Index().SetName(schema.NameIndex)},
		"with another": {Keys: bson.D{{Key: "name", Value: 1}, {Key: "owner", Value: 1}}, Options: options.Index().SetName(schema.NameIndex)},
		"unique":       {Keys: document.Op("name", 1), Options: options.Index().SetUnique(true)},
		"sparse":       {Keys: document.Op("name", 1), Options: options.Index().SetSparse(true)},
		"partial":      {Keys: document.Op("name", 1), Options: options.Index().SetPartialFilterExpression(document.Op("owner", "me"))},
		"collation":    {Keys: document.Op("name", 1), Options: options.Index().SetCollation(&options.Collation{Locale: "en", Strength: 1})},
		"hidden":       {Keys: document.Op("name", 1), Options: options.Index().SetHidden(true)},
	} {
		indexes := db.Collection("locks").Indexes()
		must(t, indexes.DropOne(t.Context(), schema.NameIndex))
		_, err := indexes.CreateOne(t.Context(), index)
		must(t, err)
		unfit(t, db, name, `db.locks.dropIndex("name_1")`, schema.NameIndex, "locks")
		must(t, indexes.DropOne(t.Context(), schema.NameIndex))
		open(t, db, Options{})
	}
	for _, of := range storeCollections {
		for _, index := range []mongo.IndexModel{
			{Keys: document.Op("expiresAt", 1)}, {Keys: document.Op("owner", "text")}, {Keys: document.Op("_id", "hashed")},
			{Keys: bson.D{{Key: "owner", Value: 1}, {Key: "_id", Value: 1}}, Options: options.Index().SetUnique(true)},
		} {
			_, err := db.Collection(of).Indexes().CreateOne(t.Context(), index)
			must(t, err)
		}
	}
	s := open(t, db, Options{})
	must(t, s.Check(t.Context()))
	release(t, s, granted(t, s, request("k")))
}

// TestP9_Validators: of each of the collections.
func TestP9_Validators(t *testing.T) {
	t.Parallel()
	db := database(t, testserver.DSN(t, testserver.Mongo))
	open(t, db, Options{})
	for _, of := range storeCollections {
		set := func(validator bson.D) {
			t.Helper()
			must(t, db.RunCommand(t.Context(), bson.D{{Key: "collMod", Value: of}, {Key: "validator", Value: validator}}).Err())
		}
		set(document.Op("tenant", document.Op("$exists", true)))
		unfit(t, db, of, `db.runCommand({"collMod": "`+of+`", "validator": {}})`, of, "validator", "tenant")
		set(bson.D{})
	}
	s := open(t, db, Options{})
	must(t, s.Check(t.Context()))
}

// unfit checks that the collections are refused wherever somebody looks at them, with the words and the command that mends it.
func unfit(t *testing.T, db *mongo.Database, what, mend string, words ...string) {
	t.Helper()
	s, err := New(db.Collection("locks"), Options{})
	must(t, err)
	defer s.Close()
	_, acquired := s.Acquire(t.Context(), []driver.Request{request("k")})
	for where, err := range map[string]error{"first use": acquired, "Check": s.Check(t.Context()), "Migrate": s.Migrate(t.Context())} {
		if err == nil {
			t.Errorf("P9: %s: %s finds nothing", what, where)
			continue
		}
		mustErr(t, err, driver.ErrSchema, true)
		for _, w := range append(words, mend) {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("P9: %s: %s does not say %q: %v", what, where, w, err)
			}
		}
	}
	f := finds(t, examine(t, s, doctor.Options{ReadOnly: true}), "RL223", doctor.Fail, words...)
	if f.Command != mend {
		t.Errorf("P9: %s: Doctor's command is %q, want %q", what, f.Command, mend)
	}
}

// TestRegistryOfTheClient: a client may have been told to encode and decode otherwise. The documents of the locks are as ever.
func TestRegistryOfTheClient(t *testing.T) {
	t.Parallel()
	reg := bson.NewRegistry()
	for _, v := range []any{int64(0), int32(0), "", true, bson.Binary{}, time.Time{}} {
		reg.RegisterTypeEncoder(reflect.TypeOf(v), bson.ValueEncoderFunc(func(_ bson.EncodeContext, w bson.ValueWriter, v reflect.Value) error {
			return w.WriteString("otherwise")
		}))
		reg.RegisterTypeDecoder(reflect.TypeOf(v), bson.ValueDecoderFunc(func(bson.DecodeContext, bson.ValueReader, reflect.Value) error {
			return errors.New("decoded otherwise")
		}))
	}
	db := database(t, testserver.DSN(t, testserver.Mongo), options.Client().SetRegistry(reg).SetBSONOptions(&options.BSONOptions{IntMinSize: true, OmitEmpty: true, NilSliceAsEmpty: true, UseLocalTimeZone: true}))
	s := open(t, db, Options{})
	must(t, s.Check(t.Context()))
	c := locker(t, s, rowlock.Options{})
	lease := guarded(t, c, "k")
	must(t, lease.Renew(t.Context()))
	must(t, s.InTx(t.Context(), lease, func(context.Context) error { return nil }))
	must(t, s.Once(t.Context(), lease, "run", func(context.Context) error { return nil }))
	if marks, err := s.Marks(t.Context(), "k", 10); err != nil || len(marks) != 1 {
		t.Errorf("Marks: %v, %v", marks, err)
	}
	if infos, err := s.List(t.Context(), "", "", 10); err != nil || len(infos) != 1 || infos[0].Owner == "otherwise" {
		t.Errorf("List: %v, %v", infos, err)
	}
	if info, err := c.Inspect(t.Context(), "k"); err != nil || !info.Held {
		t.Errorf("Inspect: %+v, %v", info, err)
	}
	_, err := s.Reap(t.Context(), time.Hour)
	must(t, err)
	must(t, lease.Release(t.Context()))
	shared, err := c.TryAcquire(t.Context(), "shared", rowlock.Shared())
	must(t, err)
	must(t, shared.Release(t.Context()))
	examine(t, s, doctor.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ready := false
	if err := s.Watch(ctx, func() { ready = true; cancel() }, func(string) {}); !ready {
		t.Errorf("Watch: %v", err)
	}
}

// TestNoTableScan: a server with notablescan refuses to read a whole collection without an index.
func TestNoTableScan(t *testing.T) {
	t.Parallel()
	srv := testserver.Start(t, testserver.Mongo, "--setParameter", "notablescan=1")
	s := open(t, connect(t, srv.DSN()).Database("app"), Options{})
	must(t, s.Check(t.Context()))
	c := locker(t, s, rowlock.Options{})
	lease := guarded(t, c, "k")
	long := time.Now().Add(-48 * time.Hour)
	_, err := s.db.Collection(s.runs).InsertOne(t.Context(), bson.D{{Key: "_id", Value: runID("k", "old")}, {Key: "token", Value: int64(1)}, {Key: "at", Value: long}})
	must(t, err)
	writeDead(t, s, "dead", 3)
	if n, err := s.Reap(t.Context(), time.Hour); err != nil || n != 3 {
		t.Errorf("Reap: %d, %v, want 3", n, err)
	}
	if n, err := s.ReapRuns(t.Context(), time.Hour); err != nil || n != 1 {
		t.Errorf("ReapRuns: %d, %v, want 1", n, err)
	}
	if _, err := s.Marks(t.Context(), "k", 10); err != nil {
		t.Error(err)
	}
	if infos, err := s.List(t.Context(), "", "", 10); err != nil || len(infos) != 1 {
		t.Errorf("List: %v, %v", infos, err)
	}
	if _, err := c.Inspect(t.Context(), "k"); err != nil {
		t.Error(err)
	}
	for _, f := range examine(t, s, doctor.Options{}).Findings {
		if f.Severity == doctor.Fail || f.Severity == doctor.Skipped && f.ID == "RL222" {
			t.Errorf("Doctor: %+v", f)
		}
	}
	must(t, lease.Release(t.Context()))
	if _, err := c.ForceRelease(t.Context(), "k"); err != nil {
		t.Error(err)
	}
}
