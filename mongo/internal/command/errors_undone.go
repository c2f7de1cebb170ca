package command

import (
	"errors"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// Two questions about an error: was anything done, and does it last? What the server's manual describes as a state of
// the collections, of the rights or of the configuration lasts, until somebody mends it: see Fail. Everything else may
// pass, also a code that nobody knows.

// open are the codes that leave open whether a command took effect: a primary that ends or steps down, and what mongos
// or a proxy answers for a server behind it.
var open = map[int]bool{
	1: true, 6: true, 7: true, 8: true, 89: true, 9001: true, // internal, unknown, and of the network
	91: true, 189: true, 11600: true, 11601: true, 11602: true, 237: true, 290: true, // interrupted, or stepping down
	64: true, 79: true, 100: true, 202: true, 262: true, 384: true, // of the write concern, or of time
}

// undone reports whether err is an answer by which the server refused a command on one document: nothing was changed.
func undone(err error) bool {
	command, concern := codes(err)
	return command > 0 && concern == 0 && !open[command] && !Labelled(err, "RetryableWriteError") && !Labelled(err, "NetworkError")
}

// PartlyDone reports whether err is of a statement of a command, which may have changed other documents before.
func PartlyDone(err error) bool {
	var w mongo.WriteException
	return errors.As(err, &w)
}

// inHandshake reports whether err came while a connection was made: no command was sent on it.
func inHandshake(err error) bool {
	return strings.Contains(err.Error(), "error occurred during connection handshake") || strings.Contains(err.Error(), "auth error")
}

// notUnderstood are the codes of servers that lack something, or only look like MongoDB.
var notUnderstood = map[int]bool{
	9: true, codeCommandNotFound: true, 115: true, codeUnknownStage: true, 238: true, 303: true, 304: true,
	codeUnrecognizedExprOld: true, 40324: true, 40415: true,
}

// misfits are the codes of collections that cannot keep locks.
var misfits = map[int]bool{
	codeValidationFailed: true, codeNamespaceNotFound: true, codeIndexNotFound: true, codeViewUnsupported: true,
	73: true, 10003: true, 17280: true, // an invalid name, a capped collection, an index that takes no long key
}

// configured are the codes of a configuration that refuses a command, with what to do.
var configured = map[int]string{
	61: "the collection is sharded by another key than _id", 322: "the client's stable API refuses the command: use a client without it",
	323: "the client's strict stable API refuses the command: use a client without it", 324: "the client's strict stable API refuses the command: use a client without it",
	72: "an option of the command is not allowed", 291: "notablescan of the server refuses the query: run Migrate, which makes the index",
}

// foreignIndex is the unique index that refused a document, if it is none that a collection of locks has; or empty.
func foreignIndex(err error) string {
	var raw bson.Raw
	var c mongo.CommandError
	var w mongo.WriteException
	switch {
	case errors.As(err, &c) && c.Code == codeDuplicateKey:
		raw = c.Raw
	case errors.As(err, &w) && len(w.WriteErrors) > 0 && w.WriteErrors[0].Code == codeDuplicateKey:
		raw = w.WriteErrors[0].Raw
	default:
		return ""
	}
	fields, ok := raw.Lookup("keyPattern").DocumentOK()
	if !ok {
		return ""
	}
	if _, err := fields.LookupErr("_id"); err == nil {
		return ""
	}
	return fields.String()
}
