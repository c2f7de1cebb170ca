package mongolock

import (
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/testserver"
)

// TestCluster: what a server is taken for, and which settings are warned of.
func TestCluster(t *testing.T) {
	srv := testserver.Start(t, testserver.Mongo)
	client := connect(t, srv.DSN())
	s, err := New(client.Database("test").Collection("locks"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	is, err := s.Cluster(t.Context())
	if err != nil || is.Kind != "single" || is.Promised == "" || len(is.Warnings) > 0 {
		t.Errorf("taken for %+v: %v", is, err)
	}

	admin := client.Database("admin")
	var reply struct{ Config bson.M }
	if err := admin.RunCommand(t.Context(), bson.D{{Key: "replSetGetConfig", Value: 1}}).Decode(&reply); err != nil {
		t.Fatal(err)
	}
	reply.Config["writeConcernMajorityJournalDefault"] = false
	reply.Config["version"] = reply.Config["version"].(int32) + 1
	if err := admin.RunCommand(t.Context(), bson.D{{Key: "replSetReconfig", Value: reply.Config}}).Err(); err != nil {
		t.Fatal(err)
	}
	is, err = s.Cluster(t.Context())
	if err != nil || len(is.Warnings) != 1 || !strings.Contains(is.Warnings[0], "writeConcernMajorityJournalDefault is false") {
		t.Errorf("a set that does not wait for the journal: %+v: %v", is, err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, err := s.Cluster(t.Context()); !driver.IsLasting(err) {
		t.Errorf("after Close: %v", err)
	}
}

func TestDescribe(t *testing.T) {
	for name, c := range map[string]struct {
		hello   bson.D
		kind    string
		warning string
	}{
		"standalone": {bson.D{{Key: "isWritablePrimary", Value: true}}, "standalone", ""},
		"sharded":    {bson.D{{Key: "msg", Value: "isdbgrid"}}, "sharded", ""},
		"three":      {bson.D{{Key: "setName", Value: "a"}, {Key: "hosts", Value: bson.A{"a", "b", "c"}}}, "replica set", ""},
		"with an arbiter": {bson.D{{Key: "setName", Value: "a"}, {Key: "hosts", Value: bson.A{"a", "b"}}, {Key: "arbiters", Value: bson.A{"c"}}},
			"replica set", "2 members with data and 1 arbiters"},
		"five and an arbiter": {bson.D{{Key: "setName", Value: "a"}, {Key: "hosts", Value: bson.A{"a", "b", "c"}}, {Key: "passives", Value: bson.A{"d"}},
			{Key: "arbiters", Value: bson.A{"e"}}}, "replica set", ""},
	} {
		t.Run(name, func(t *testing.T) {
			hello, err := bson.Marshal(c.hello)
			if err != nil {
				t.Fatal(err)
			}
			is := describe(hello, nil)
			if got := strings.Join(is.Warnings, "; "); is.Kind != c.kind || !strings.Contains(got, c.warning) || (got == "") != (c.warning == "") {
				t.Errorf("taken for %+v", is)
			}
		})
	}
}
