package main

import (
	"context"
	"encoding/base64"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

var (
	shellCall  = regexp.MustCompile(`(?s)^db\.(?:(\w+)\.)?(\w+)\((.*)\)((?:\.\w+)*)\s*$`)
	shellSleep = regexp.MustCompile(`^sleep\((\d+)\)\s*$`)
	shellUUID  = regexp.MustCompile(`UUID\(("[^"]*")\)`)
	shellLong  = regexp.MustCompile(`Long\(("[^"]*")\)`)
	shellData  = regexp.MustCompile(`BinData\(0, ("[^"]*")\)`)
)

// mongosh runs a call of that shell, whose arguments are JSON but for UUID, Long and BinData, and returns its answer as the
// shell writes it, on one line. Of a list only the values that have the text only in them are taken.
func mongosh(t *testing.T, db *mongo.Database, text, only string) string {
	t.Helper()
	if m := shellSleep.FindStringSubmatch(text); m != nil {
		ms, err := strconv.Atoi(m[1])
		must(t, err)
		time.Sleep(time.Duration(ms) * time.Millisecond)
		return ""
	}
	m := shellCall.FindStringSubmatch(text)
	if m == nil {
		t.Fatalf("no call of the shell: %s", text)
	}
	json := shellUUID.ReplaceAllString(m[3], `{"$$uuid": $1}`)
	json = shellLong.ReplaceAllString(json, `{"$$numberLong": $1}`)
	json = shellData.ReplaceAllString(json, `{"$$binary": {"base64": $1, "subType": "00"}}`)
	var call struct{ Args bson.A }
	if err := bson.UnmarshalExtJSON([]byte(`{"args":[`+json+`]}`), false, &call); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	answer, err := called(db, m[1], m[2], call.Args)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	for _, name := range strings.Split(m[4], ".")[1:] {
		fields, _ := answer.(bson.D)
		answer = nil
		for _, f := range fields {
			if f.Key == name {
				answer = f.Value
			}
		}
	}
	if list, ok := answer.(bson.A); ok {
		answer = slices.DeleteFunc(list, func(e any) bool { return !strings.Contains(shellText(e), only) })
	}
	return shellText(answer)
}

// called makes a call of the shell.
func called(db *mongo.Database, collection, function string, args bson.A) (any, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	coll := db.Collection(collection)
	all := func(cursor *mongo.Cursor, err error) (any, error) {
		var docs []bson.D
		if err == nil {
			err = cursor.All(ctx, &docs)
		}
		list := bson.A{}
		for _, d := range docs {
			list = append(list, d)
		}
		return list, err
	}
	run := func(db *mongo.Database, cmd any) (any, error) {
		var reply bson.D
		err := db.RunCommand(ctx, cmd).Decode(&reply)
		return reply, err
	}
	switch function {
	case "aggregate":
		return all(coll.Aggregate(ctx, args[0]))
	case "countDocuments":
		n, err := coll.CountDocuments(ctx, args[0])
		return int32(n), err
	case "updateOne":
		r, err := coll.UpdateOne(ctx, args[0], args[1]) // the third argument, the majority, is the default
		if err != nil {
			return nil, err
		}
		return bson.D{{Key: "acknowledged", Value: true}, {Key: "insertedId", Value: nil}, {Key: "matchedCount", Value: int32(r.MatchedCount)},
			{Key: "modifiedCount", Value: int32(r.ModifiedCount)}, {Key: "upsertedCount", Value: int32(r.UpsertedCount)}}, nil
	case "adminCommand":
		return run(db.Client().Database("admin"), args[0])
	case "hello", "serverStatus":
		return run(db, bson.D{{Key: function, Value: 1}})
	}
	return nil, fmt.Errorf("a function that the test does not know: %s", function)
}

// shellText is a value as the shell writes it.
func shellText(value any) string {
	switch v := value.(type) {
	case nil:
		return "null"
	case string:
		return "'" + v + "'"
	case int64:
		return fmt.Sprintf("Long('%d')", v)
	case bson.DateTime:
		return "ISODate('" + v.Time().UTC().Format("2006-01-02T15:04:05.000Z") + "')"
	case bson.Binary:
		if b := v.Data; v.Subtype == bson.TypeBinaryUUID {
			return fmt.Sprintf("UUID('%x-%x-%x-%x-%x')", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
		}
		return fmt.Sprintf("Binary.createFromBase64('%s', %d)", base64.StdEncoding.EncodeToString(v.Data), v.Subtype)
	case bson.D:
		var fields []string
		for _, f := range v {
			fields = append(fields, f.Key+": "+shellText(f.Value))
		}
		return "{ " + strings.Join(fields, ", ") + " }"
	case bson.A:
		var values []string
		for _, e := range v {
			values = append(values, shellText(e))
		}
		if len(values) == 0 {
			return "[]"
		}
		return "[ " + strings.Join(values, ", ") + " ]"
	}
	return fmt.Sprint(value)
}
