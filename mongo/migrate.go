package mongolock

import (
	"context"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/rowlock/rowlock/mongo/internal/command"
	"github.com/rowlock/rowlock/mongo/internal/document"
	"github.com/rowlock/rowlock/mongo/internal/schema"
)

// Migrate creates what is missing: the lease collection and, beside it, those
// with _fence, _runs and _tx after its name, the index on name that List needs,
// and the number of the layout. It may be called by any number of processes at
// once and again at any time. It needs the right to create collections and
// indexes (the role readWrite has it); everything else needs find, insert, update
// and remove only, and Watch changeStream on the lease collection.
//
// It fails with ErrSchema if the collection was written by a newer release of
// this library, with ErrClosed, or with the server's error.
func (s *Store) Migrate(ctx context.Context) error {
	if err := s.open(ctx, "migrate"); err != nil {
		return err
	}
	if _, err := s.checkServer(ctx); err != nil {
		return err
	}
	for _, name := range s.collections() {
		// An empty collection costs nothing, and later nothing has to be created in
		// the middle of a transaction.
		_, err := s.cmd.Write(ctx, nil, bson.D{{Key: "create", Value: name}}, ddlWait)
		if code := command.Code(err); err != nil && code != command.CodeNamespaceExists {
			return s.cmd.Fail(ctx, "migrate: create "+name, err)
		}
	}
	if err := s.schema().CheckCollections(ctx); err != nil {
		return err
	}
	// Without a collation, whatever that of the collection is: names compare byte
	// for byte.
	_, err := s.cmd.Write(ctx, nil, bson.D{
		{Key: "createIndexes", Value: s.leases},
		{Key: "indexes", Value: bson.A{bson.D{
			{Key: "key", Value: document.Op("name", 1)},
			{Key: "name", Value: schema.NameIndex},
			{Key: "collation", Value: document.Op("locale", "simple")},
		}}},
	}, ddlWait)
	if err != nil {
		return s.cmd.Fail(ctx, "migrate: create index "+schema.NameIndex, err)
	}
	for tries := 0; ; tries++ {
		_, err := s.cmd.Write(ctx, nil, bson.D{
			{Key: "update", Value: s.leases},
			{Key: "updates", Value: bson.A{bson.D{
				{Key: "q", Value: document.Op("_id", schema.LayoutID)},
				{Key: "u", Value: document.Op("$setOnInsert", document.Op("layout", int64(schema.Layout)))},
				{Key: "upsert", Value: true},
			}}},
		}, ddlWait)
		if err == nil {
			break
		}
		if tries == 3 || !command.Conflicted(err) {
			return s.cmd.Fail(ctx, "migrate: write the layout number", err)
		}
	}
	return s.schema().CheckLayout(ctx)
}
