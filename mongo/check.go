package mongolock

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/split"
	"github.com/rowlock/rowlock/mongo/internal/command"
	"github.com/rowlock/rowlock/mongo/internal/document"
	"github.com/rowlock/rowlock/mongo/internal/schema"
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
// at least 4 connections, 3 with FewConnections.
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
	if s.o.FewConnections {
		hello, err := s.checkServer(ctx)
		if err == nil {
			err = s.checkPool(ctx, hello)
		}
		if err != nil {
			return err
		}
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
		func() error {
			if s.o.FewConnections {
				return nil // it would open them all, at each start
			}
			return s.checkPool(ctx, hello)
		},
		func() error { return s.schema().Check(ctx) },
	)
}

func (s *Store) checkPool(ctx context.Context, hello bson.Raw) error {
	least := command.MinConns
	if s.o.FewConnections {
		least = command.MinFewConns
	}
	return s.cmd.CheckPool(ctx, hello, least)
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

// schema is what is looked at of the collections.
func (s *Store) schema() schema.Schema {
	return schema.Schema{Runner: s.cmd, Store: s.String(), All: s.collections()}
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
