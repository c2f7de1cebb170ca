package mongolock

import (
	"context"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/mongo/internal/command"
	"github.com/rowlock/rowlock/mongo/internal/document"
)

// layout is the number of the documents' form, kept in a document of the lease
// collection: {_id: "layout", layout: 1}.
const (
	layout    = 1
	layoutID  = "layout"
	nameIndex = "name_1" // as the shell would call it
)

// Migrate creates what is missing: the lease collection and, beside it, those
// with _fence, _runs, _tx and _wait after its name, the index on name that List needs,
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
	for _, name := range []string{s.leases, s.fences, s.runs, s.txs, s.waits} {
		// An empty collection costs nothing, and later nothing has to be created in
		// the middle of a transaction.
		_, err := s.cmd.Write(ctx, nil, bson.D{{Key: "create", Value: name}}, ddlWait)
		if code := command.Code(err); err != nil && code != command.CodeNamespaceExists {
			return s.cmd.Fail(ctx, "migrate: create "+name, err)
		}
	}
	if err := s.checkCollections(ctx); err != nil {
		return err
	}
	// Without a collation, whatever that of the collection is: names compare byte
	// for byte.
	_, err := s.cmd.Write(ctx, nil, bson.D{
		{Key: "createIndexes", Value: s.leases},
		{Key: "indexes", Value: bson.A{bson.D{
			{Key: "key", Value: document.Op("name", 1)},
			{Key: "name", Value: nameIndex},
			{Key: "collation", Value: document.Op("locale", "simple")},
		}}},
	}, ddlWait)
	if err != nil {
		return s.cmd.Fail(ctx, "migrate: create index "+nameIndex, err)
	}
	for tries := 0; ; tries++ {
		_, err := s.cmd.Write(ctx, nil, bson.D{
			{Key: "update", Value: s.leases},
			{Key: "updates", Value: bson.A{bson.D{
				{Key: "q", Value: document.Op("_id", layoutID)},
				{Key: "u", Value: document.Op("$setOnInsert", document.Op("layout", int64(layout)))},
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
	return s.checkLayout(ctx)
}

// checkLayout reads the number of the layout and uses the index on name once.
// Both need no right but find.
func (s *Store) checkLayout(ctx context.Context) error {
	return firstOf(
		func() error { return s.checkNumber(ctx) },
		func() error { return s.checkNameIndex(ctx) },
	)
}

func (s *Store) checkNumber(ctx context.Context) error {
	docs, err := s.cmd.Documents(ctx, bson.D{
		{Key: "find", Value: s.leases},
		{Key: "filter", Value: document.Op("_id", layoutID)},
		{Key: "singleBatch", Value: true},
	})
	if err != nil {
		return s.cmd.Fail(ctx, "check", err)
	}
	if len(docs) == 0 {
		return s.schema("the collection is not set up: run Migrate once, with a user who may create collections")
	}
	number, _ := docs[0].Lookup("layout").AsInt64OK()
	switch {
	case number < layout:
		return s.schema(fmt.Sprintf("the collection has layout %d, this release needs %d: run Migrate", number, layout))
	case number > layout:
		return s.schema(fmt.Sprintf("the collection has layout %d, this release knows %d: use the release that wrote it, or a newer one", number, layout))
	}
	return nil
}

func (s *Store) checkNameIndex(ctx context.Context) error {
	_, err := s.cmd.Read(ctx, bson.D{
		{Key: "find", Value: s.leases},
		{Key: "filter", Value: document.Op("name", document.Op("$gt", ""))},
		{Key: "projection", Value: document.Op("_id", 1)},
		{Key: "hint", Value: nameIndex},
		{Key: "collation", Value: document.Op("locale", "simple")},
		{Key: "limit", Value: 1},
		{Key: "singleBatch", Value: true},
	})
	if code := command.Code(err); code == command.CodeBadValue {
		return s.schema(fmt.Sprintf("the index %s on name is missing: run Migrate", nameIndex))
	}
	if err != nil {
		return s.cmd.Fail(ctx, "check", err)
	}
	return nil
}

func (s *Store) schema(text string) error {
	return &driver.Error{Lasting: true, NotApplied: true, Err: fmt.Errorf("%w: %s: %s", driver.ErrSchema, s, text)}
}

// misfit is the error of a collection that is there and cannot be used as it is, with the command of the shell that mends it.
type misfit struct {
	error
	mend string
}

func (m *misfit) Unwrap() error { return m.error }

func (s *Store) unfit(mend, format string, args ...any) error {
	err := fmt.Errorf("%w: %s: %s: %s", driver.ErrSchema, s, fmt.Sprintf(format, args...), mend)
	return &driver.Error{Lasting: true, NotApplied: true, Err: &misfit{err, mend}}
}
