package mongolock

import (
	"errors"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// matched is the number of documents that an update, delete or findAndModify found.
func matched(reply bson.Raw) int64 {
	n, ok := reply.Lookup("n").AsInt64OK()
	if !ok {
		last, _ := reply.Lookup("lastErrorObject").DocumentOK()
		n, _ = last.Lookup("n").AsInt64OK()
	}
	return n
}

// operationTimeOf is the server's logical time at which it answered with err.
func operationTimeOf(err error) *bson.Timestamp {
	var raw bson.Raw
	var c mongo.CommandError
	var w mongo.WriteException
	switch {
	case errors.As(err, &c):
		raw = c.Raw
	case errors.As(err, &w):
		raw = w.Raw
	}
	return operationTime(raw)
}

// operationTime is the server's logical time of a reply; nil if it has none.
func operationTime(reply bson.Raw) *bson.Timestamp {
	if t, i, ok := reply.Lookup("operationTime").TimestampOK(); ok {
		return &bson.Timestamp{T: t, I: i}
	}
	return nil
}

// majorityAfter is the read concern for what the majority has, not before a moment.
func majorityAfter(moment *bson.Timestamp) bson.E {
	return bson.E{Key: "readConcern", Value: bson.D{{Key: "level", Value: "majority"}, {Key: "afterClusterTime", Value: *moment}}}
}

// answer is the reply to a write.
type answer struct {
	bson.Raw
	earlier bson.Raw // the reply to the earlier sending of it that matched the most documents
	lost    bool     // what an earlier sending matched, if it arrived, is not known
}

// matched is the number of documents that some sending of a write found.
func (r answer) matched() int64 { return max(matched(r.Raw), matched(r.earlier)) }

func documentsOf(cmd bson.D, reply bson.Raw, err error) ([]bson.Raw, error) {
	if err != nil {
		return nil, err
	}
	docs, err := firstBatch(reply)
	if err != nil {
		return nil, fmt.Errorf("reply of %s: %w", cmd[0].Key, err)
	}
	return docs, nil
}

func firstBatch(reply bson.Raw) ([]bson.Raw, error) {
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
