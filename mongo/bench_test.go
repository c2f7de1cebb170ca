package mongolock

import (
	"context"
	"testing"

	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"

	"github.com/rowlock/rowlock/internal/testserver"
	"github.com/rowlock/rowlock/locktest"
	"github.com/rowlock/rowlock/mongo/internal/document"
)

// BenchmarkStore runs the benchmarks of the suite on a replica set of one node and
// on one of three.
func BenchmarkStore(b *testing.B) {
	bench := func(b *testing.B, uri string) {
		h := harnessAt(b, uri)
		h.Floor = func(t testing.TB) func() error { return floor(t, uri) }
		locktest.Bench(b, h)
	}
	b.Run("nodes=1", func(b *testing.B) { bench(b, testserver.DSN(b, testserver.Mongo)) })
	b.Run("nodes=3", func(b *testing.B) { bench(b, testserver.Start(b, testserver.Mongo3).DSN()) })
}

// floor is two updates of one document, each at the majority.
func floor(t testing.TB, uri string) func() error {
	coll := database(t, uri).Collection("floor", options.Collection().SetWriteConcern(writeconcern.Majority()))
	n := int64(0)
	set := func() error {
		n++
		_, err := coll.UpdateByID(context.Background(), "a", document.Op("$set", document.Op("n", n)))
		return err
	}
	if _, err := coll.InsertOne(context.Background(), document.Op("_id", "a")); err != nil {
		t.Fatal(err)
	}
	return func() error {
		if err := set(); err != nil {
			return err
		}
		return set()
	}
}
