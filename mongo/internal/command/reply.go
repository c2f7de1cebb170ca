package command

import (
	"errors"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// Matched is the number of documents that an update, delete or findAndModify found.
func Matched(reply bson.Raw) int64 {
	n, ok := reply.Lookup("n").AsInt64OK()
	if !ok {
		last, _ := reply.Lookup("lastErrorObject").DocumentOK()
		n, _ = last.Lookup("n").AsInt64OK()
	}
	return n
}

// ErrorTime is the server's logical time at which it answered with err.
func ErrorTime(err error) *bson.Timestamp {
	var raw bson.Raw
	var c mongo.CommandError
	var w mongo.WriteException
	switch {
	case errors.As(err, &c):
		raw = c.Raw
	case errors.As(err, &w):
		raw = w.Raw
	}
	return OperationTime(raw)
}

// OperationTime is the server's logical time of a reply; nil if it has none.
func OperationTime(reply bson.Raw) *bson.Timestamp {
	if t, i, ok := reply.Lookup("operationTime").TimestampOK(); ok {
		return &bson.Timestamp{T: t, I: i}
	}
	return nil
}

// MajorityAfter is the read concern for what the majority has, not before a moment.
func MajorityAfter(moment *bson.Timestamp) bson.E {
	return bson.E{Key: "readConcern", Value: bson.D{{Key: "level", Value: "majority"}, {Key: "afterClusterTime", Value: *moment}}}
}

// Answer is the reply to a write.
type Answer struct {
	bson.Raw
	Earlier bson.Raw // the reply to the earlier sending of it that matched the most documents
	Lost    bool     // what an earlier sending matched, if it arrived, is not known
}

// Matched is the number of documents that some sending of a write found.
func (r Answer) Matched() int64 { return max(Matched(r.Raw), Matched(r.Earlier)) }

// DocumentsOf are the documents in the reply to a command whose answer has a cursor.
func DocumentsOf(cmd bson.D, reply bson.Raw, err error) ([]bson.Raw, error) {
	if err != nil {
		return nil, err
	}
	docs, err := FirstBatch(reply)
	if err != nil {
		return nil, fmt.Errorf("reply of %s: %w", cmd[0].Key, err)
	}
	return docs, nil
}

// FirstBatch are the documents in the first batch of a cursor.
func FirstBatch(reply bson.Raw) ([]bson.Raw, error) {
	cursor, _ := reply.Lookup("cursor").DocumentOK() // step by step: a path through what is cut off panics
	batch, ok := cursor.Lookup("firstBatch").ArrayOK()
	if !ok {
		return nil, errors.New("no cursor.firstBatch in the reply")
	}
	values, err := batch.Values()
	if err != nil {
		return nil, err
	}
	docs := make([]bson.Raw, 0, len(values))
	for _, v := range values {
		if d, ok := v.DocumentOK(); ok {
			docs = append(docs, d)
		}
	}
	return docs, nil
}
