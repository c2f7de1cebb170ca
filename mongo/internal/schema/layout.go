package schema

import (
	"context"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/mongo/internal/command"
	"github.com/rowlock/rowlock/mongo/internal/document"
)

// layout reads the number of the layout and uses the index on name once. Both need no right but find.
func (s Schema) layout(ctx context.Context) []Finding { return s.both(ctx, s.number, s.nameIndex) }

func (s Schema) number(ctx context.Context) []Finding {
	docs, err := s.Runner.Documents(ctx, bson.D{
		{Key: "find", Value: s.leases()},
		{Key: "filter", Value: document.Op("_id", LayoutID)},
		{Key: "singleBatch", Value: true},
	})
	if err != nil {
		return s.failed(ctx, err)
	}
	if len(docs) == 0 {
		return s.old("the collection is not set up: run Migrate once, with a user who may create collections")
	}
	number, _ := docs[0].Lookup("layout").AsInt64OK()
	switch {
	case number < Layout:
		return s.old(fmt.Sprintf("the collection has layout %d, this release needs %d: run Migrate", number, Layout))
	case number > Layout:
		return s.old(fmt.Sprintf("the collection has layout %d, this release knows %d: use the release that wrote it, or a newer one", number, Layout))
	}
	return nil
}

func (s Schema) nameIndex(ctx context.Context) []Finding {
	_, err := s.Runner.Read(ctx, bson.D{
		{Key: "find", Value: s.leases()},
		{Key: "filter", Value: document.Op("name", document.Op("$gt", ""))},
		{Key: "projection", Value: document.Op("_id", 1)},
		{Key: "hint", Value: NameIndex},
		{Key: "collation", Value: document.Op("locale", "simple")},
		{Key: "limit", Value: 1},
		{Key: "singleBatch", Value: true},
	})
	if code := command.Code(err); code == command.CodeBadValue {
		return s.old(fmt.Sprintf("the index %s on name is missing: run Migrate", NameIndex))
	}
	if err != nil {
		return s.failed(ctx, err)
	}
	return nil
}

// old is a finding that Migrate mends, or a newer release.
func (s Schema) old(text string) []Finding {
	err := fmt.Errorf("%w: %s: %s", driver.ErrSchema, s.Store, text)
	return []Finding{{Unfit, err.Error(), migrate, s.refuse(err)}}
}
