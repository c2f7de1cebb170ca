package command

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/handshake"
	"github.com/rowlock/rowlock/mongo/internal/document"
)

// The server's error codes that mean something to the Store:
// https://www.mongodb.com/docs/v6.0/reference/error-codes/
const (
	CodeBadValue            = 2
	CodeUnauthorized        = 13
	codeAuthFailed          = 18
	CodeIllegalOperation    = 20
	CodeLockTimeout         = 24
	codeNamespaceNotFound   = 26
	codeIndexNotFound       = 27
	CodeNamespaceExists     = 48
	CodeMaxTimeMSExpired    = 50
	codeCommandNotFound     = 59
	codeWriteConcernFailed  = 64
	CodeImmutableField      = 66
	CodeWriteConflict       = 112
	codeValidationFailed    = 121
	codeViewUnsupported     = 166
	codeUnknownStage        = 168
	codeAtlas               = 8000
	CodeNotWritablePrimary  = 10107
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

// Code is the code of the command, or of its first statement that failed.
func Code(err error) int {
	command, _ := codes(err)
	return command
}

// Hidden: the user may not look.
func Hidden(err error) bool { return Code(err) == CodeUnauthorized }

// Blocked: the limit of the command ended it, because it waited for somebody else's
// transaction, or because the server is busy: which of the two it does not say, so
// neither does the error. Of a command with one document nothing was applied. (A limit that ends the wait for
// the majority comes as a write concern error instead: applied.)
func Blocked(err error) bool {
	var doubt *doubtful
	command, concern := codes(err)
	return command == CodeMaxTimeMSExpired && concern == 0 && !errors.As(err, &doubt)
}

// MajorityLate: applied on the primary, but not acknowledged in time.
func MajorityLate(err error) bool {
	command, concern := codes(err)
	return command == 0 && (concern == CodeMaxTimeMSExpired || concern == codeWriteConcernFailed)
}

// Conflicted: two commands met; nothing was applied.
func Conflicted(err error) bool {
	var doubt *doubtful
	if errors.As(err, &doubt) {
		return false
	}
	return ConflictedLast(err)
}

// ConflictedLast is Conflicted, of the last sending alone.
func ConflictedLast(err error) bool {
	command, concern := codes(err)
	return concern == 0 && (command == codeDuplicateKey || command == CodeWriteConflict)
}

// CorruptDocument reports whether the server could not compute with what it found in a
// document. That one it has not changed; of others in the command the majority may be
// late.
func CorruptDocument(err error) bool {
	switch command, _ := codes(err); command {
	case 14, 15, 241, 16554, 16555, 16556, 16612, 5166401: // types that do not fit, dates out of range
		return true
	}
	return false
}

// Repeatable: the connection was lost, or the primary is another one now.
func Repeatable(err error) bool {
	return Labelled(err, "NetworkError") || Labelled(err, "RetryableWriteError") || NotPrimary(err)
}

// Labelled reports whether the driver or the server gave err a label.
func Labelled(err error, label string) bool {
	var l mongo.LabeledError
	return errors.As(err, &l) && l.HasErrorLabel(label)
}

// NotPrimary: the server is no writable primary any more.
func NotPrimary(err error) bool {
	switch command, concern := codes(err); command {
	case CodeNotWritablePrimary, codeNotPrimaryNoReply, codeNotPrimaryOrSecond:
		return concern == 0
	}
	return false
}

// NothingSent: the driver found no connection to send on. It says so in types of
// its experimental packages only, hence the texts; an error that is not
// recognised counts as sent, the careful reading.
func NothingSent(err error) bool {
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

// NoServer: there was no server to send to, no connection, or no place: nothing was sent.
func NoServer(err error) bool {
	return absent(err) || errors.Is(err, errNoPlace) || strings.Contains(err.Error(), "while checking out a connection from")
}

// Fail is the one place where an error of the driver gets its meaning and its
// words. what names the step, and the key if there is one.
func (r *Runner) Fail(ctx context.Context, what string, err error) *driver.Error {
	var already *driver.Error
	if errors.As(err, &already) {
		return already
	}
	e := &driver.Error{}
	cause, advice := err, ""
	command, concern := codes(err)
	switch {
	case ctx.Err() != nil:
		e.NotApplied = NoServer(err)
		cause = fmt.Errorf("%w (%w)", ctx.Err(), err)
		if busy := r.BusyPool(err); busy != nil {
			cause = fmt.Errorf("%w: %w (%w)", ctx.Err(), busy, err)
		}
	case Silent(err):
		e.Silent, e.NotApplied = true, NoServer(err)
	case errors.Is(err, mongo.ErrClientDisconnected):
		e.Lasting, e.NotApplied = true, true
		cause = fmt.Errorf("%w: %w", driver.ErrClosed, err)
		advice = ": the mongo.Client was disconnected before the Store was closed"
	case command == codeAuthFailed, command == codeAtlas && inHandshake(err): // Atlas says 8000 of a quota or a rate too
		e.Lasting, e.NotApplied = true, true
		advice = ": check user, password and authSource of the connection string"
	case command == CodeUnauthorized:
		e.Lasting, e.NotApplied = true, true
		cause = brief{err}
		rights, on := "find, insert, update and remove", list(r.collections)
		switch {
		case strings.HasPrefix(what, "migrate"):
			rights += ", and for Migrate createCollection and createIndex,"
		case what == "watch":
			rights, on = "find and changeStream", r.collections[0]
		}
		advice = fmt.Sprintf(": the user needs %s on %s of database %s", rights, on, r.db.Name())
	case command == CodeIllegalOperation || command == codeClusterTimeMissing:
		e.Lasting, e.NotApplied = true, true
		cause = fmt.Errorf("%w: %w", driver.ErrNotSupported, err)
		advice = ": locks need a replica set (one node will do) or a sharded cluster"
	case notUnderstood[command]:
		e.Lasting, e.NotApplied = true, true
		cause = fmt.Errorf("%w: %w", driver.ErrNotSupported, err)
		advice = ": locks need MongoDB 5.1 or newer"
	case misfits[command]:
		e.Lasting, e.NotApplied = true, true
		cause = fmt.Errorf("%w: %w", driver.ErrSchema, err)
		advice = ": the collection must be an ordinary one without a validator; run Migrate"
	case configured[command] != "":
		e.Lasting, e.NotApplied = true, true
		cause = fmt.Errorf("%w: %w", driver.ErrNotSupported, err)
		advice = ": " + configured[command]
	case foreignIndex(err) != "":
		e.Lasting, e.NotApplied = true, true
		cause = fmt.Errorf("%w: %w", driver.ErrSchema, err)
		advice = ": the collection has a unique index that is not rowlock's, on " + foreignIndex(err) + ": drop it"
	case untrusted(err):
		e.Lasting, e.NotApplied = true, true
		advice = ": " + handshake.Advice
	case absent(err):
		e.NotApplied = true
		advice = absentAdvice
	case NotPrimary(err):
		e.NotApplied = true
		advice = ": no writable primary at the moment"
	case Blocked(err):
		e.NotApplied = true
		advice = ": the server did not finish it in time"
	case CorruptDocument(err), command == CodeBadValue && (strings.HasPrefix(what, "force") || strings.HasPrefix(what, "guard")): // a number at its end
		e.Lasting, e.NotApplied = true, concern == 0
		advice = ": its document" + document.CorruptAdvice
	case Conflicted(err) || NothingSent(err) || NoServer(err):
		e.NotApplied = true
	case concern != 0:
		advice = ": applied on the primary, but not acknowledged by the majority"
	}
	if ctx.Err() == nil && (errors.Is(cause, context.DeadlineExceeded) || errors.Is(cause, context.Canceled)) {
		cause = notCallers{cause}
	}
	e.NotApplied = e.NotApplied || undone(err)
	var doubt *doubtful
	if errors.As(err, &doubt) {
		e.NotApplied = false
	}
	e.Err = fmt.Errorf("mongo: %s on %s: %w%s", what, r, cause, advice)
	return e
}

// copied is the server's copy of a command that it refuses: the whole pipeline, with keys, hold IDs and signatures.
var copied = regexp.MustCompile(`(?s)(to execute command) \{ (\w+): .*\}`)

// Brief is the text of an error without that copy: of the command only the name is left.
func Brief(err error) string { return copied.ReplaceAllString(err.Error(), "$1 $2") }

// brief is an error with that text.
type brief struct{ error }

func (b brief) Error() string { return Brief(b.error) }
func (b brief) Unwrap() error { return b.error }

// notCallers is an error of a context that was the driver's: of a search for a server, or of its time-out. The caller's has
// not ended, so it does not match a context's errors; everything else of it stays.
type notCallers struct{ cause error }

func (n notCallers) Error() string { return n.cause.Error() }

// Is implements errors.Is.
func (n notCallers) Is(target error) bool {
	return target != context.DeadlineExceeded && target != context.Canceled && errors.Is(n.cause, target)
}

// As implements errors.As.
func (n notCallers) As(target any) bool { return errors.As(n.cause, target) }

// list is a, b and c.
func list(names []string) string {
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " and " + names[last]
}
