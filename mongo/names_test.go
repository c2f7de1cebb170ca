package mongolock

import (
	"errors"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/rowlock/rowlock"
)

// TestP1_NamesNobodySees: the server takes "app\n" for a database of its own, so that the programs of "app" and those of a secret
// with a newline would hold one key at a time. Such names are refused.
func TestP1_NamesNobodySees(t *testing.T) {
	t.Parallel()
	client, err := mongo.Connect(options.Client().ApplyURI("mongodb://127.0.0.1:1"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ database, collection, says string }{
		{"app\n", "locks", `"app\n" ends with a newline: leave it out`},
		{"\ufeffapp", "locks", "begins with a byte order mark"},
		{" app", "locks", "begins with a space"},
		{"app\u00a0", "locks", "ends with the character U+00A0"},
		{"a\tpp", "locks", "has a tab in it"},
		{"app", "locks\n", `"locks\n": use 1 to 100 letters`},
		{"app", " locks", `" locks": use 1 to 100 letters`},
	} {
		if _, err := New(client.Database(c.database).Collection(c.collection), Options{}); !errors.Is(err, rowlock.ErrInvalid) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%q, %q: %v, want ErrInvalid with %s", c.database, c.collection, err, c.says)
		}
	}
}
