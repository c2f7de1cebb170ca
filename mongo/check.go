package mongolock

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/mongo/internal/command"
	"github.com/rowlock/rowlock/mongo/internal/document"
	"github.com/rowlock/rowlock/mongo/internal/split"
)

const (
	ddlWait = time.Minute

	// wireVersion51 is MongoDB 5.1, the first with $tsSecond.
	wireVersion51 = 14
)

// Check asks whether locks can be kept here: the server can be reached and is
// writable, is MongoDB 5.1 or newer and a replica set or a sharded cluster (or a
// standalone one that Options allow), and the collections are there, of this
// layout, with the index on name, and of no kind that loses documents or refuses
// them (capped, time series, view, validator, TTL index, an index of somebody else's that is
// unique or for places on a map). What the user has no
// right to see is not looked at. A collation does no harm, nor does any other index. The client's pool must allow
// at least 4 connections.
//
// The first use of a Store checks all this by itself, until it succeeds once. Check alone
// also looks whether the client may end sessions (killSessions, which the strict stable
// API refuses). Locks work without: but where a process dies inside InTx or Once, the
// next holder waits until the server ends the transaction.
//
// Errors: ErrNotSupported (server; killSessions), ErrSchema (collections; most often: run
// Migrate), ErrInvalid (pool), ErrClosed, or the server's.
func (s *Store) Check(ctx context.Context) error {
	if err := s.open(ctx, "check"); err != nil {
		return err
	}
	if err := s.check(ctx); err != nil {
		return err
	}
	return s.checkKill(ctx)
}

// check is Check for the first use: what it finds makes a Store useless.
func (s *Store) check(ctx context.Context) error {
	hello, err := s.checkServer(ctx)
	if err != nil {
		return err
	}
	return firstOf(
		func() error { return s.cmd.CheckPool(ctx, hello) },
		func() error { return s.checkCollections(ctx) },
		func() error { return s.checkLayout(ctx) },
	)
}

// firstOf runs all at once, because the first use of a Store with a short TTL has
// little time, and returns the first error in the order of the arguments.
func firstOf(checks ...func() error) error {
	errs := make([]error, len(checks))
	split.InParallel(len(checks), split.Parts, func(i int) { errs[i] = checks[i]() })
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) checkServer(ctx context.Context) (hello bson.Raw, err error) {
	hello, err = s.cmd.Read(ctx, document.Op("hello", 1))
	if err != nil {
		return nil, s.cmd.Fail(ctx, "check: reach the server", err)
	}
	return hello, s.checkHello(ctx, hello)
}

// checkHello looks at what the server says of itself.
func (s *Store) checkHello(ctx context.Context, hello bson.Raw) error {
	if wire, _ := hello.Lookup("maxWireVersion").AsInt64OK(); wire < wireVersion51 {
		return s.unsupported(fmt.Sprintf("this is MongoDB %s, locks need 5.1 or newer", s.version(ctx)))
	}
	if writable, _ := hello.Lookup("isWritablePrimary").BooleanOK(); !writable {
		return &driver.Error{NotApplied: true, Err: fmt.Errorf("mongo: check: the server of %s is no writable primary at the moment", s)}
	}
	set, _ := hello.Lookup("setName").StringValueOK()
	msg, _ := hello.Lookup("msg").StringValueOK()
	standalone := set == "" && msg != "isdbgrid"
	if standalone && !s.o.AllowStandalone {
		return s.unsupported("a standalone server has no clock that never goes back (tokens), no transactions (guard) and no retryable writes (undo): " +
			"make it a replica set of one node (mongod --replSet, then rs.initiate()), or set Options.AllowStandalone for development")
	}
	s.cmd.SetStandalone(standalone)
	return nil
}

// version is for messages; it may need a right that the user does not have.
func (s *Store) version(ctx context.Context) string {
	reply, err := s.cmd.Read(ctx, document.Op("buildInfo", 1))
	if err != nil {
		return "of an unknown version"
	}
	v, _ := reply.Lookup("version").StringValueOK()
	return v
}

func (s *Store) unsupported(text string) error {
	return &driver.Error{Lasting: true, NotApplied: true, Err: fmt.Errorf("%w: %s: %s", driver.ErrNotSupported, s, text)}
}

// checkKill tries to end a session that nobody has.
func (s *Store) checkKill(ctx context.Context) error {
	if s.cmd.Standalone() {
		return nil // where there are no transactions to end
	}
	id := make([]byte, 16)
	rand.Read(id)
	_, err := s.cmd.Send(ctx, nil, command.KillSessions(document.Op("id", bson.Binary{Subtype: bson.TypeBinaryUUID, Data: id})), undoWait)
	switch code := command.Code(err); {
	case err == nil || command.Blocked(err) || command.NotPrimary(err):
		return nil
	case code == 0:
		return s.cmd.Fail(ctx, "check: killSessions", err)
	}
	return &driver.Error{Lasting: true, NotApplied: true, Err: fmt.Errorf("%w: %s: locks work, but killSessions is refused (%w): the next holder of a key whose holder died inside InTx or Once "+
		"waits until the server ends the transaction (transactionLifetimeLimitSeconds, 60 s by default): use a client without the strict stable API for locks", driver.ErrNotSupported, s, err)}
}

// checkCollections looks for options that break locks without an error: a capped
// collection drops its oldest documents, a TTL index deletes by a clock of its own.
func (s *Store) checkCollections(ctx context.Context) error {
	names := bson.A{s.leases, s.fences, s.runs, s.txs, s.waits}
	docs, err := s.cmd.Documents(ctx, bson.D{
		{Key: "listCollections", Value: 1},
		{Key: "filter", Value: document.Op("name", document.Op("$in", names))},
	})
	if hidden(err) {
		return nil
	}
	if err != nil {
		return s.cmd.Fail(ctx, "check", err)
	}
	if len(docs) < len(names) {
		return s.schema(fmt.Sprintf("of the collections %v %d are there: run Migrate once, with a user who may create collections", names, len(docs)))
	}
	var indexes []func() error
	for _, doc := range docs {
		name, _ := doc.Lookup("name").StringValueOK()
		if kind, _ := doc.Lookup("type").StringValueOK(); kind != "collection" {
			return s.unfit(fmt.Sprintf("db.%s.drop()", name), "%s is a %s: locks need an ordinary collection: while no program runs drop it, and run Migrate", name, kind)
		}
		options, _ := doc.Lookup("options").DocumentOK()
		if capped, _ := options.Lookup("capped").BooleanOK(); capped {
			return s.unfit(fmt.Sprintf("db.%s.drop()", name), "%s is capped: it would drop locks that are held: while no program runs drop it, and run Migrate", name)
		}
		if _, err := options.LookupErr("expireAfterSeconds"); err == nil {
			return s.unfit(fmt.Sprintf(`db.runCommand({"collMod": %q, "expireAfterSeconds": "off"})`, name), "%s has expireAfterSeconds, which would delete locks", name)
		}
		if v, _ := options.Lookup("validator").DocumentOK(); len(v) > len(bson.Raw{5, 0, 0, 0, 0}) {
			return s.unfit(fmt.Sprintf(`db.runCommand({"collMod": %q, "validator": {}})`, name), "%s has a validator, %v: it can refuse the documents of locks", name, v)
		}
		indexes = append(indexes, func() error { return s.checkIndexes(ctx, name) })
	}
	return firstOf(indexes...)
}

func (s *Store) checkIndexes(ctx context.Context, name string) error {
	indexes, err := s.cmd.Documents(ctx, document.Op("listIndexes", name))
	if hidden(err) {
		return nil
	}
	if err != nil {
		return s.cmd.Fail(ctx, "check", err)
	}
	for _, index := range indexes {
		if fault := indexFault(index, name == s.leases); fault != "" {
			called, _ := index.Lookup("name").StringValueOK()
			return s.unfit(fmt.Sprintf("db.%s.dropIndex(%q)", name, called), "the index %s of %s over %v %s", called, name, index.Lookup("key"), fault)
		}
	}
	return nil
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
	case ofLeases && name == nameIndex:
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

// hidden: the user may not look.
func hidden(err error) bool {
	code := command.Code(err)
	return code == command.CodeUnauthorized
}
