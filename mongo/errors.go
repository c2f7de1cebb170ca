package mongolock

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/mongo/internal/document"
)

// The server's error codes that mean something to the Store:
// https://www.mongodb.com/docs/v6.0/reference/error-codes/
const (
	codeBadValue            = 2
	codeUnauthorized        = 13
	codeAuthFailed          = 18
	codeIllegalOperation    = 20
	codeNamespaceNotFound   = 26
	codeIndexNotFound       = 27
	codeNamespaceExists     = 48
	codeMaxTimeMSExpired    = 50
	codeCommandNotFound     = 59
	codeWriteConcernFailed  = 64
	codeImmutableField      = 66
	codeWriteConflict       = 112
	codeValidationFailed    = 121
	codeViewUnsupported     = 166
	codeUnknownStage        = 168
	codeAtlas               = 8000
	codeNotWritablePrimary  = 10107
	codeDuplicateKey        = 11000
	codeNotPrimaryNoReply   = 13435
	codeNotPrimaryOrSecond  = 13436
	codeClusterTimeMissing  = 51144
	codeUnrecognizedExprOld = 31325
)

// codes takes an error apart: the code of the command or of its first statement
// that failed, and that of the write concern.
func codes(err error) (command, concern int) {
	var c mongo.CommandError
	if errors.As(err, &c) {
		command = int(c.Code)
	}
	var w mongo.WriteException
	if errors.As(err, &w) {
		if len(w.WriteErrors) > 0 {
			command = w.WriteErrors[0].Code
		}
		if w.WriteConcernError != nil {
			concern = w.WriteConcernError.Code
			if concern == 0 {
				concern = codeWriteConcernFailed
			}
		}
	}
	return command, concern
}

// blocked: the limit of the command ended it, because it waited for somebody else's
// transaction, or because the server is busy: which of the two it does not say, so
// neither does the error. Of a command with one document nothing was applied. (A limit that ends the wait for
// the majority comes as a write concern error instead: applied.)
func blocked(err error) bool {
	var doubt *doubtful
	command, concern := codes(err)
	return command == codeMaxTimeMSExpired && concern == 0 && !errors.As(err, &doubt)
}

// majorityLate: applied on the primary, but not acknowledged in time.
func majorityLate(err error) bool {
	command, concern := codes(err)
	return command == 0 && (concern == codeMaxTimeMSExpired || concern == codeWriteConcernFailed)
}

// conflicted: two commands met; nothing was applied.
func conflicted(err error) bool {
	var doubt *doubtful
	if errors.As(err, &doubt) {
		return false
	}
	return conflictedLast(err)
}

// conflictedLast is conflicted, of the last sending alone.
func conflictedLast(err error) bool {
	command, concern := codes(err)
	return concern == 0 && (command == codeDuplicateKey || command == codeWriteConflict)
}

// corruptDocument reports whether the server could not compute with what it found in a
// document. That one it has not changed; of others in the command the majority may be
// late.
func corruptDocument(err error) bool {
	switch command, _ := codes(err); command {
	case 14, 15, 16554, 16555, 16556, 16612, 5166401: // types that do not fit, dates out of range
		return true
	}
	return false
}

// repeatable: the connection was lost, or the primary is another one now.
func repeatable(err error) bool {
	return labelled(err, "NetworkError") || labelled(err, "RetryableWriteError") || notPrimary(err)
}

func labelled(err error, label string) bool {
	var l mongo.LabeledError
	return errors.As(err, &l) && l.HasErrorLabel(label)
}

func notPrimary(err error) bool {
	switch command, concern := codes(err); command {
	case codeNotWritablePrimary, codeNotPrimaryNoReply, codeNotPrimaryOrSecond:
		return concern == 0
	}
	return false
}

// nothingSent: the driver found no connection to send on. It says so in types of
// its experimental packages only, hence the texts; an error that is not
// recognised counts as sent, the careful reading.
func nothingSent(err error) bool {
	var pool interface {
		error
		Retryable() bool // the pool was cleared while the command waited for a connection
	}
	return errors.As(err, &pool) && pool.Retryable()
}

// absent: the driver knows no server that is a writable primary.
func absent(err error) bool {
	return err != nil && strings.Contains(err.Error(), "server selection error")
}

func noServer(err error) bool {
	return absent(err) || errors.Is(err, errNoPlace) || strings.Contains(err.Error(), "while checking out a connection from")
}

// fail is the one place where an error of the driver gets its meaning and its
// words. what names the step, and the key if there is one.
func (s *Store) fail(ctx context.Context, what string, err error) *driver.Error {
	var already *driver.Error
	if errors.As(err, &already) {
		return already
	}
	e := &driver.Error{}
	cause, advice := err, ""
	command, concern := codes(err)
	switch {
	case ctx.Err() != nil:
		e.NotApplied = noServer(err)
		cause = fmt.Errorf("%w (%w)", ctx.Err(), err)
		if busy := s.busyPool(err); busy != nil {
			cause = fmt.Errorf("%w: %w (%w)", ctx.Err(), busy, err)
		}
	case silent(err):
		e.Silent, e.NotApplied = true, noServer(err)
	case errors.Is(err, mongo.ErrClientDisconnected):
		e.Lasting, e.NotApplied = true, true
		advice = ": the mongo.Client was disconnected before the Store was closed"
	case command == codeAuthFailed || command == codeAtlas:
		e.Lasting, e.NotApplied = true, true
		advice = ": check user, password and authSource of the connection string"
	case command == codeUnauthorized:
		e.Lasting, e.NotApplied = true, true
		rights := "find, insert, update and remove"
		if strings.HasPrefix(what, "migrate") {
			rights += ", and for Migrate createCollection and createIndex,"
		}
		advice = fmt.Sprintf(": the user needs %s on %s, %s, %s and %s of database %s", rights, s.leases, s.fences, s.runs, s.txs, s.db.Name())
	case command == codeIllegalOperation || command == codeClusterTimeMissing:
		e.Lasting, e.NotApplied = true, true
		cause = fmt.Errorf("%w: %w", driver.ErrNotSupported, err)
		advice = ": locks need a replica set (one node will do) or a sharded cluster"
	case command == codeCommandNotFound || command == codeUnknownStage || command == codeUnrecognizedExprOld:
		e.Lasting, e.NotApplied = true, true
		cause = fmt.Errorf("%w: %w", driver.ErrNotSupported, err)
		advice = ": locks need MongoDB 5.1 or newer"
	case command == codeValidationFailed || command == codeNamespaceNotFound || command == codeIndexNotFound || command == codeViewUnsupported:
		e.Lasting, e.NotApplied = true, true
		cause = fmt.Errorf("%w: %w", driver.ErrSchema, err)
		advice = ": the collection must be an ordinary one without a validator; run Migrate"
	case absent(err):
		e.NotApplied = true
		advice = ": check the addresses and replicaSet of the connection string, and whether the set has a primary"
	case notPrimary(err):
		e.NotApplied = true
		advice = ": no writable primary at the moment"
	case blocked(err):
		e.NotApplied = true
		advice = ": the server did not finish it in time"
	case corruptDocument(err), command == codeBadValue && (strings.HasPrefix(what, "force") || strings.HasPrefix(what, "guard")): // a number at its end
		e.Lasting, e.NotApplied = true, concern == 0
		advice = ": its document" + document.CorruptAdvice
	case conflicted(err) || nothingSent(err) || noServer(err):
		e.NotApplied = true
	case concern != 0:
		advice = ": applied on the primary, but not acknowledged by the majority"
	}
	var doubt *doubtful
	if errors.As(err, &doubt) {
		e.NotApplied = false
	}
	e.Err = fmt.Errorf("mongo: %s on %s: %w%s", what, s, cause, advice)
	return e
}
