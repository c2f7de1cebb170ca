// Package schema looks at the collections of a Store as Migrate makes them, for Check, Migrate and Doctor.
package schema

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/split"
	"github.com/rowlock/rowlock/mongo/internal/command"
	"github.com/rowlock/rowlock/mongo/internal/document"
)

// Layout is the number of the documents' form, kept in a document of the lease collection: {_id: "layout",
// layout: 1}.
const (
	Layout    = 1
	LayoutID  = "layout"
	NameIndex = "name_1" // as the shell would call it
)

// Schema is what is looked at.
type Schema struct {
	Runner *command.Runner
	Store  string   // as errors name it
	All    []string // the collections; the first is that of the leases
}

func (s Schema) leases() string { return s.All[0] }

// Check looks at everything, and returns what stops the Store.
func (s Schema) Check(ctx context.Context) error { return stop(s.Look(ctx)) }

// CheckCollections is Check for the collections alone, as they are before the index and the layout number are
// made.
func (s Schema) CheckCollections(ctx context.Context) error { return stop(s.collections(ctx)) }

// CheckLayout is Check for the rest.
func (s Schema) CheckLayout(ctx context.Context) error { return stop(s.layout(ctx)) }

// Look looks at everything, and lists what is wrong. What is wrong with a collection hides the rest.
func (s Schema) Look(ctx context.Context) []Finding { return s.both(ctx, s.collections, s.layout) }

// both looks at two things at once, because the first use of a Store with a short TTL has little time. The
// second counts where the first does not stop the Store.
func (s Schema) both(ctx context.Context, one, other func(context.Context) []Finding) []Finding {
	var found [2][]Finding
	split.InParallel(2, split.Parts, func(i int) { found[i] = []func(context.Context) []Finding{one, other}[i](ctx) })
	if stop(found[0]) != nil {
		return found[0]
	}
	return append(found[0], found[1]...)
}

// collections looks for options that break locks without an error: a capped collection drops its oldest
// documents, a TTL index deletes by a clock of its own.
func (s Schema) collections(ctx context.Context) (found []Finding) {
	docs, err := s.Runner.Documents(ctx, bson.D{
		{Key: "listCollections", Value: 1},
		{Key: "filter", Value: document.Op("name", document.Op("$in", s.All))},
	})
	if command.Hidden(err) {
		return []Finding{{Kind: Unseen, Says: command.Brief(err)}}
	}
	if err != nil {
		return s.failed(ctx, err)
	}
	if len(docs) < len(s.All) {
		return s.missing(docs)
	}
	for _, doc := range docs {
		name, _ := doc.Lookup("name").StringValueOK()
		if kind, _ := doc.Lookup("type").StringValueOK(); kind != "collection" {
			found = append(found, s.unfit(fmt.Sprintf("db.%s.drop()", name), "%s is a %s: locks need an ordinary collection: while no program runs drop it, and run Migrate", name, kind))
			continue
		}
		options, _ := doc.Lookup("options").DocumentOK()
		if capped, _ := options.Lookup("capped").BooleanOK(); capped {
			found = append(found, s.unfit(fmt.Sprintf("db.%s.drop()", name), "%s is capped: it would drop locks that are held: while no program runs drop it, and run Migrate", name))
		}
		if _, err := options.LookupErr("expireAfterSeconds"); err == nil {
			found = append(found, s.unfit(fmt.Sprintf(`db.runCommand({"collMod": %q, "expireAfterSeconds": "off"})`, name), "%s has expireAfterSeconds, which would delete locks", name))
		}
		if v, _ := options.Lookup("validator").DocumentOK(); len(v) > len(bson.Raw{5, 0, 0, 0, 0}) {
			found = append(found, s.unfit(fmt.Sprintf(`db.runCommand({"collMod": %q, "validator": {}})`, name), "%s has a validator, %v: it can refuse the documents of locks", name, v))
		}
	}
	if len(found) > 0 {
		return found
	}
	indexes := make([][]Finding, len(docs))
	split.InParallel(len(docs), split.Parts, func(i int) {
		name, _ := docs[i].Lookup("name").StringValueOK()
		indexes[i] = s.indexes(ctx, name)
	})
	return slices.Concat(indexes...)
}

// missing lists the collections that are not among those that are there.
func (s Schema) missing(there []bson.Raw) []Finding {
	lacking := slices.DeleteFunc(slices.Clone(s.All), func(name string) bool {
		return slices.ContainsFunc(there, func(doc bson.Raw) bool { n, _ := doc.Lookup("name").StringValueOK(); return n == name })
	})
	err := s.refuse(fmt.Errorf("%w: %s: of the collections %v %d are there: run Migrate once, with a user who may create collections", driver.ErrSchema, s.Store, s.All, len(there)))
	return []Finding{{Missing, "missing: " + strings.Join(lacking, ", "), migrate, err}}
}

func (s Schema) indexes(ctx context.Context, name string) (found []Finding) {
	indexes, err := s.Runner.Documents(ctx, document.Op("listIndexes", name))
	if command.Hidden(err) {
		return nil
	}
	if err != nil {
		return s.failed(ctx, err)
	}
	for _, index := range indexes {
		if fault := indexFault(index, name == s.leases()); fault != "" {
			called, _ := index.Lookup("name").StringValueOK()
			found = append(found, s.unfit(fmt.Sprintf("db.%s.dropIndex(%q)", name, called), "the index %s of %s over %v %s", called, name, index.Lookup("key"), fault))
		}
	}
	return found
}

// indexFault says what is wrong with an index; empty: nothing.
func indexFault(index bson.Raw, ofLeases bool) string {
	key, _ := index.Lookup("key").DocumentOK()
	fields, _ := key.Elements()
	yes := func(option string) bool { is, _ := index.Lookup(option).BooleanOK(); return is }
	has := func(option string) bool { _, err := index.LookupErr(option); return err == nil }
	withID := slices.ContainsFunc(fields, func(f bson.RawElement) bool { return f.Key() == "_id" })
	switch name, _ := index.Lookup("name").StringValueOK(); {
	case has("expireAfterSeconds"):
		return "is a TTL index, which would delete locks (Reap removes dead keys)"
	case withID: // the server's own, that of a shard key, or one that can refuse nothing
		return ""
	case yes("unique") || yes("prepareUnique"):
		return "is unique, and not rowlock's: it would refuse the documents of other keys"
	case ofLeases && name == NameIndex:
		one, _ := fields[0].Value().AsInt64OK()
		if len(fields) != 1 || fields[0].Key() != "name" || one != 1 || yes("sparse") || yes("hidden") || has("partialFilterExpression") || has("collation") {
			return "is not as List needs it, over name alone, of all documents and without a collation; then run Migrate"
		}
	}
	for _, f := range fields {
		switch kind, _ := f.Value().StringValueOK(); kind {
		case "2d", "2dsphere", "hashed":
			return "is of the kind " + kind + ", and not rowlock's: it can refuse the documents of locks"
		}
	}
	return ""
}
