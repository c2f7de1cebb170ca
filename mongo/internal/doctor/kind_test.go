package doctor

import (
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/rowlock/rowlock/doctor"
)

// TestDoctorKinds: what a server is called, and that a router is not asked what only a member knows.
func TestDoctorKinds(t *testing.T) {
	for want, hello := range map[string]bson.D{
		" at db1:27017 (replica set rs0)":       {{Key: "me", Value: "db1:27017"}, {Key: "setName", Value: "rs0"}},
		", sharded (mongos)":                    {{Key: "msg", Value: "isdbgrid"}},
		", standalone":                          {{Key: "isWritablePrimary", Value: true}},
		", of a replica set that was not begun": {{Key: "isreplicaset", Value: true}},
	} {
		raw, err := bson.Marshal(hello)
		if err != nil {
			t.Fatal(err)
		}
		if _, got := kindOf(raw); got != want {
			t.Errorf("%v is called %q, want %q", hello, got, want)
		}
	}
	client, err := mongo.Connect(options.Client().ApplyURI("mongodb://127.0.0.1:1")) // is not asked
	if err != nil {
		t.Fatal(err)
	}
	defer client.Disconnect(t.Context())
	e := &Examination{Subject: Subject{DB: client.Database("app")}, report: doctor.New(doctor.Mongo(), doctor.Options{Ignore: []string{"RL205"}}), is: router}
	if err := e.replicaSet(t.Context()); err != nil {
		t.Error(err)
	}
	if len(e.report.Findings) != 3 {
		t.Errorf("%+v", e.report.Findings)
	}
	for _, f := range e.report.Findings {
		if f.Severity != doctor.Skipped || !strings.Contains(f.Advice, "each shard") {
			t.Errorf("%+v", f)
		}
	}
}
