package command

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// FuzzCodes: an error with any codes gets a meaning, and keeps the key and its cause.
func FuzzCodes(f *testing.F) {
	for _, code := range []int{0, 1, 2, 11, 13, 14, 18, 20, 26, 50, 64, 112, 251, 8000, 10107, 11000, 16554, 51144, -1, math.MaxInt32, math.MinInt32} {
		f.Add(code, 0, "", uint8(0))
		f.Add(code, code, "NetworkError", uint8(1))
		f.Add(0, code, "RetryableWriteError", uint8(1))
	}
	client, err := mongo.Connect(options.Client().ApplyURI("mongodb://127.0.0.1:1/"))
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = client.Disconnect(context.Background()) })
	r := New(client.Database("app"), "locks", "locks_fence")
	f.Fuzz(func(t *testing.T, code, concern int, label string, kind uint8) {
		var err error = mongo.CommandError{Code: int32(code), Labels: []string{label}}
		if kind&1 == 1 {
			w := mongo.WriteException{WriteErrors: mongo.WriteErrors{{Code: code}}, Labels: []string{label}}
			if concern != 0 {
				w.WriteConcernError = &mongo.WriteConcernError{Code: concern}
			}
			err = w
		}
		if kind&2 == 2 {
			err = &doubtful{err}
		}
		e := r.Fail(t.Context(), `acquire "k"`, err)
		if !errors.Is(e, err) && errors.Unwrap(e) == nil || !strings.Contains(e.Error(), `"k"`) {
			t.Errorf("%v", e)
		}
		if kind&2 == 2 && e.NotApplied {
			t.Errorf("a doubtful error proves something: %v", e)
		}
		if kind&1 == 1 && concern != 0 && code == 0 && e.NotApplied {
			t.Errorf("applied on the primary, and told as not applied: %v", e)
		}
	})
}

// TestBrief: a refusal names the command, and has no copy of it: neither in its own text nor in that of what wraps it.
func TestBrief(t *testing.T) {
	refusal := mongo.CommandError{Code: CodeUnauthorized, Name: "Unauthorized", Message: `not authorized on app to execute command { findAndModify: "locks", query: { _id: BinData(0, 6B) }, lsid: { id: UUID("2a69db87-5fe7-429e-9e5a-a8d9cde6b24c") }, $db: "app" }`}
	const want = "(Unauthorized) not authorized on app to execute command findAndModify"
	if got := Brief(refusal); got != want {
		t.Errorf("%q", got)
	}
	client, err := mongo.Connect(options.Client().ApplyURI("mongodb://127.0.0.1:1/"))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Disconnect(context.Background())
	e := New(client.Database("app"), "locks", "locks_fence").Fail(t.Context(), `acquire "k"`, refusal)
	if text := e.Error(); !strings.Contains(text, want+": the user needs find") || strings.Contains(text, "UUID") {
		t.Errorf("%s", text)
	}
	var cause mongo.CommandError
	if !errors.As(e, &cause) || cause.Message != refusal.Message {
		t.Errorf("the cause is not kept: %#v", cause)
	}
	if other := errors.New("{ a: {} }"); Brief(other) != other.Error() {
		t.Errorf("%q", Brief(other))
	}
}
