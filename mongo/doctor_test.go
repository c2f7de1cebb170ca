package mongolock

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readpref"

	"github.com/rowlock/rowlock/doctor"
	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/testserver"
	"github.com/rowlock/rowlock/mongo/internal/document"
	"github.com/rowlock/rowlock/mongo/internal/schema"
)

// examine is what Doctor says, with few samples.
func examine(t testing.TB, s *Store, o doctor.Options) *doctor.Report {
	t.Helper()
	if o.Samples == 0 {
		o.Samples = 2
	}
	ctx, cancel := context.WithTimeout(context.Background(), testserver.Patience(t))
	defer cancel()
	r, err := s.Doctor(ctx, o)
	must(t, err)
	return r
}

// finds returns the finding with an ID and a severity whose value has some words.
func finds(t testing.TB, r *doctor.Report, id string, severity doctor.Severity, words ...string) (found doctor.Finding) {
	t.Helper()
	for _, f := range r.Of(id) {
		matches := f.Severity == severity
		for _, w := range words {
			matches = matches && strings.Contains(f.Value, w)
		}
		if !matches {
			continue
		}
		if severity >= doctor.Warn && f.Advice == "" || f.Title == "" || braces.MatchString(f.Advice+f.Command) {
			t.Errorf("a finding without texts: %+v", f)
		}
		return f
	}
	t.Errorf("no finding %s (%v) of %q: %+v", id, severity, words, r.Of(id))
	return doctor.Finding{}
}

var (
	braces         = regexp.MustCompile(`\{[a-z]+\}`) // a name whose value is missing
	mongoshCommand = regexp.MustCompile(`^db(?:\.getSiblingDB\("(\w+)"\))?\.(?:adminCommand|runCommand)\((\{.*\})\)$`)
	uuidText       = regexp.MustCompile(`UUID\("([^"]+)"\)`)
	binaryText     = regexp.MustCompile(`BinData\(0, "([^"]*)"\)`)
)

// mend runs a command of a finding, as mongosh does.
func mend(t testing.TB, c *mongo.Client, text string) {
	t.Helper()
	m := mongoshCommand.FindStringSubmatch(text)
	if m == nil {
		t.Fatalf("not a command for the shell: %s", text)
	}
	if m[1] == "" {
		m[1] = "admin"
	}
	extended := binaryText.ReplaceAllString(uuidText.ReplaceAllString(m[2], `{"$$uuid": "$1"}`), `{"$$binary": {"base64": "$1", "subType": "00"}}`)
	var cmd bson.D
	if err := bson.UnmarshalExtJSON([]byte(extended), false, &cmd); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	if err := c.Database(m[1]).RunCommand(context.Background(), cmd).Err(); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
}

// run sends a command to the database admin.
func run(t testing.TB, c *mongo.Client, cmd bson.D) bson.Raw {
	t.Helper()
	raw, err := c.Database("admin").RunCommand(context.Background(), cmd).Raw()
	if err != nil {
		t.Fatalf("%v: %v", cmd[0].Key, err)
	}
	return raw
}

// TestDoctorHealthy: on a server that is as it should be nothing is wrong, and nothing of the Doctor stays.
func TestDoctorHealthy(t *testing.T) {
	t.Parallel()
	s := shared(t)
	const uri = "mongodb://127.0.0.1/?appName=jobs&w=majority"
	documents := func() int64 {
		n, err := s.db.Collection(s.leases).CountDocuments(t.Context(), document.Op("_id", document.Op("$ne", schema.LayoutID)))
		must(t, err)
		return n
	}
	var r *doctor.Report
	var before int64
	for range 20 { // a server under load may not finish a step in time, and one that was not finished may leave a document
		before = documents()
		r = examine(t, s, doctor.Options{Samples: 30, URI: uri, Ignore: []string{"RL250"}}) // other tests run on this server
		if r.Renewal.P99 > 0 {
			break
		}
	}
	finds(t, r, "RL210", doctor.Info, "nobody is logged in") // the servers of these tests have no access control
	finds(t, r, "RL211", doctor.OK)
	for _, f := range r.Findings {
		if f.Severity >= doctor.Skipped {
			t.Errorf("%+v", f)
		}
	}
	if !strings.Contains(r.Server, "MongoDB 6") && !strings.Contains(r.Server, "rs0") || !strings.Contains(r.Strategy, "locks") ||
		r.Statement.P50 <= 0 || r.Commit.P50 <= 0 || r.Renewal.P99 <= 0 || r.SkewError <= 0 || r.SaneTTL < 2*time.Second {
		t.Errorf("%+v", r)
	}
	if len(r.Findings) < 20 || r.Exit(true) != doctor.ExitOK {
		t.Errorf("%d findings, exit code %d", len(r.Findings), r.Exit(true))
	}
	if n := documents(); n != before {
		t.Errorf("%d documents are left, %d were there before", n, before)
	}
}

// TestDoctorReadOnly: with ReadOnly nothing is written, and what would be is skipped.
func TestDoctorReadOnly(t *testing.T) {
	t.Parallel()
	sent := make(chan string, 1000)
	monitor := &event.CommandMonitor{Started: func(_ context.Context, e *event.CommandStartedEvent) { sent <- e.CommandName }}
	db := database(t, testserver.DSN(t, testserver.Mongo))
	open(t, db, Options{})
	s, err := New(connect(t, testserver.DSN(t, testserver.Mongo), options.Client().SetMonitor(monitor)).Database(db.Name()).Collection("locks"), Options{})
	must(t, err)
	defer s.Close()
	r := examine(t, s, doctor.Options{ReadOnly: true})
	for _, id := range []string{"RL212", "RL261", "RL262", "RL263"} {
		finds(t, r, id, doctor.Skipped, "ReadOnly")
	}
	for _, id := range []string{"RL232", "RL233", "RL234", "RL235"} {
		finds(t, r, id, doctor.Skipped, "URI")
	}
	for len(sent) > 0 {
		switch name := <-sent; name {
		case "insert", "update", "delete", "findAndModify", "bulkWrite", "killSessions", "create", "createIndexes":
			t.Errorf("sent %s", name)
		}
	}
	if r.Statement.P50 <= 0 || r.Renewal.P50 != 0 || r.Exit(false) != doctor.ExitOK {
		t.Errorf("%+v", r)
	}
	if _, err := json.Marshal(r); err != nil {
		t.Error(err)
	}
}

// TestDoctorRefuses: options that cannot be used, and a server that cannot be reached.
func TestDoctorRefuses(t *testing.T) {
	t.Parallel()
	s, err := New(connect(t, "mongodb://127.0.0.1:1/?replicaSet=rs0").Database("db").Collection("locks"), Options{})
	must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if r, err := s.Doctor(ctx, doctor.Options{}); r != nil || err == nil || driver.IsLasting(err) {
		t.Errorf("%v, %v", r, err)
	}
	for _, o := range []doctor.Options{{Samples: -1}, {Ignore: []string{"RL101"}}, {URI: "mysql://host"}, {URI: "mongodb://user:se%cret@host"}} {
		_, err := s.Doctor(t.Context(), o)
		mustErr(t, err, driver.ErrInvalid, true)
		if strings.Contains(err.Error(), "cret") {
			t.Errorf("the password is in the error: %v", err)
		}
	}
	must(t, s.Close())
	_, err = s.Doctor(t.Context(), doctor.Options{})
	mustErr(t, err, driver.ErrClosed, true)
}

// TestDoctorURI: what the program's address asks for.
func TestDoctorURI(t *testing.T) {
	t.Parallel()
	s := shared(t)
	look := doctor.Options{ReadOnly: true, URI: "mongodb://user:secret@127.0.0.1/?directConnection=true&readPreference=nearest&w=1&maxPoolSize=10&timeoutMS=500"}
	r := examine(t, s, look)
	finds(t, r, "RL231", doctor.Warn, "maxPoolSize is 10")
	finds(t, r, "RL232", doctor.Warn, "directConnection")
	finds(t, r, "RL233", doctor.Warn, "nearest", "w is 1")
	finds(t, r, "RL234", doctor.Info, "none")
	finds(t, r, "RL235", doctor.Warn, "timeoutMS is 500")
	text, err := json.Marshal(r)
	if err != nil || strings.Contains(string(text), "secret") {
		t.Errorf("%v: the password is in the report: %s", err, text)
	}

	small, err := New(connect(t, testserver.DSN(t, testserver.Mongo), options.Client().SetMaxPoolSize(2)).Database(s.db.Name()).Collection("locks"), Options{})
	must(t, err)
	defer small.Close()
	finds(t, examine(t, small, doctor.Options{ReadOnly: true}), "RL231", doctor.Fail, "allows 2 connections")
}

// TestDoctorCollections: collections that are missing, or not as they should be.
func TestDoctorCollections(t *testing.T) {
	t.Parallel()
	db := database(t, testserver.DSN(t, testserver.Mongo))
	s, err := New(db.Collection("locks"), Options{})
	must(t, err)
	defer s.Close()
	r := examine(t, s, doctor.Options{})
	finds(t, r, "RL220", doctor.Fail, "locks_fence", "locks_tx")
	finds(t, r, "RL261", doctor.Skipped, "missing")
	must(t, s.Migrate(t.Context())) // what the command does
	finds(t, examine(t, s, doctor.Options{}), "RL220", doctor.OK)

	indexes := db.Collection("locks").Indexes()
	ttl, err := indexes.CreateOne(t.Context(), mongo.IndexModel{Keys: document.Op("expiresAt", 1), Options: options.Index().SetExpireAfterSeconds(3600)})
	must(t, err)
	finds(t, examine(t, s, doctor.Options{}), "RL223", doctor.Fail, "TTL index")
	must(t, indexes.DropOne(t.Context(), ttl))
	must(t, indexes.DropOne(t.Context(), schema.NameIndex))
	f := finds(t, examine(t, s, doctor.Options{}), "RL223", doctor.Fail, schema.NameIndex)
	if f.Command != "rowlock migrate --up" {
		t.Errorf("%+v", f)
	}
	must(t, s.Migrate(t.Context()))
	finds(t, examine(t, s, doctor.Options{}), "RL223", doctor.OK)
}

// TestDoctorDeadDocuments: documents that nobody reaps.
func TestDoctorDeadDocuments(t *testing.T) {
	t.Parallel()
	s := shared(t)
	writeDead(t, s, "k", 1001)
	finds(t, examine(t, s, doctor.Options{}), "RL222", doctor.Warn, "1001")
	for range 3 { // what the command does
		_, err := s.Reap(t.Context(), 48*time.Hour)
		must(t, err)
	}
	finds(t, examine(t, s, doctor.Options{}), "RL222", doctor.OK)
}

// TestDoctorStrict: the strict stable API lets no session be ended.
func TestDoctorStrict(t *testing.T) {
	t.Parallel()
	strict := options.Client().SetServerAPIOptions(options.ServerAPI(options.ServerAPIVersion1).SetStrict(true))
	s := open(t, database(t, testserver.DSN(t, testserver.Mongo), strict), Options{})
	finds(t, examine(t, s, doctor.Options{}), "RL212", doctor.Warn, "killSessions")
}

// TestDoctorSettings: each setting that is wrong on a real server is found, and the command mends it.
func TestDoctorSettings(t *testing.T) {
	t.Parallel()
	srv := testserver.Start(t, testserver.Mongo, "--maxConns=90")
	admin := connect(t, srv.DSN())
	s := open(t, admin.Database("app"), Options{})
	r := examine(t, s, doctor.Options{})
	finds(t, r, "RL230", doctor.Warn, "are in use")
	finds(t, r, "RL260", doctor.Info)
	if off := max(r.Skew, -r.Skew) - r.SkewError; off > time.Second {
		t.Errorf("the server of this machine is %v away", r.Skew)
	}
	run(t, admin, bson.D{{Key: "setParameter", Value: 1}, {Key: "transactionLifetimeLimitSeconds", Value: 600}})
	run(t, admin, bson.D{{Key: "setDefaultRWConcern", Value: 1}, {Key: "defaultWriteConcern", Value: document.Op("w", 1)}})
	r = examine(t, s, doctor.Options{})
	mend(t, admin, finds(t, r, "RL208", doctor.Warn, "600 s").Command)
	mend(t, admin, finds(t, r, "RL209", doctor.Warn, "w is").Command)
	r = examine(t, s, doctor.Options{})
	finds(t, r, "RL208", doctor.OK)
	finds(t, r, "RL209", doctor.OK)

	blockDocument(t, s.db.Collection("data"), "job")
	time.Sleep(20 * time.Millisecond)
	o := doctor.Options{OldTransaction: 10 * time.Millisecond}
	f := finds(t, examine(t, s, o), "RL250", doctor.Warn, "open for")
	mend(t, admin, f.Command)
	finds(t, examine(t, s, o), "RL250", doctor.OK)

	reconfigure(t, admin, func(c bson.M) { c["writeConcernMajorityJournalDefault"] = false })
	finds(t, examine(t, s, doctor.Options{}), "RL203", doctor.Fail, "false")
	reconfigure(t, admin, func(c bson.M) { c["writeConcernMajorityJournalDefault"] = true })
	finds(t, examine(t, s, doctor.Options{}), "RL203", doctor.OK)
}

// reconfigure changes the configuration of the replica set.
func reconfigure(t testing.TB, c *mongo.Client, change func(config bson.M)) {
	t.Helper()
	var reply struct{ Config bson.M }
	must(t, bson.Unmarshal(run(t, c, document.Op("replSetGetConfig", 1)), &reply))
	change(reply.Config)
	reply.Config["version"] = reply.Config["version"].(int32) + 1
	delete(reply.Config, "term")
	run(t, c, bson.D{{Key: "replSetReconfig", Value: reply.Config}})
}

// TestDoctorMembers: a replica set that is not what it should be.
func TestDoctorMembers(t *testing.T) {
	testserver.Long(t)
	srv := testserver.Start(t, testserver.Mongo3)
	admin := connect(t, srv.DSN())
	s := open(t, admin.Database("app"), Options{})
	r := examine(t, s, doctor.Options{ReadOnly: true})
	for _, id := range []string{"RL205", "RL206"} {
		finds(t, r, id, doctor.OK)
	}
	// One that is no primary.
	secondary, err := New(connect(t, srv.DSN(), options.Client().SetReadPreference(readpref.Primary()), direct(t, admin)).Database("app").Collection("locks"), Options{})
	must(t, err)
	defer secondary.Close()
	r = examine(t, secondary, doctor.Options{})
	finds(t, r, "RL202", doctor.Fail, "no writable primary")
	finds(t, r, "RL261", doctor.Skipped)

	reconfigure(t, admin, func(c bson.M) {
		m := c["members"].(bson.A)[secondaryOf(t, admin)]
		switch m := m.(type) {
		case bson.D:
			for i := range m {
				switch m[i].Key {
				case "secondaryDelaySecs":
					m[i].Value = int64(5)
				case "priority":
					m[i].Value = 0
				}
			}
		case bson.M:
			m["secondaryDelaySecs"], m["priority"] = int64(5), 0
		}
	})
	finds(t, examine(t, s, doctor.Options{ReadOnly: true}), "RL205", doctor.Warn, "5 s late")

	// The majority is behind: nobody fetches what the primary writes.
	for _, host := range secondaries(t, admin) {
		c := connect(t, "mongodb://"+host+"/?directConnection=true")
		run(t, c, bson.D{{Key: "configureFailPoint", Value: "stopReplProducer"}, {Key: "mode", Value: "alwaysOn"}})
		defer run(t, c, bson.D{{Key: "configureFailPoint", Value: "stopReplProducer"}, {Key: "mode", Value: "off"}})
	}
	for end := time.Now().Add(testserver.Patience(t)); ; time.Sleep(300 * time.Millisecond) {
		_ = admin.Database("app").RunCommand(t.Context(), bson.D{
			{Key: "insert", Value: "data"}, {Key: "documents", Value: bson.A{bson.D{}}}, {Key: "writeConcern", Value: document.Op("w", 1)},
		}).Err()
		r = examine(t, s, doctor.Options{ReadOnly: true})
		if f := r.Of("RL207"); f[0].Severity == doctor.Warn || time.Now().After(end) {
			break
		}
	}
	finds(t, r, "RL207", doctor.Warn)
}

// TestDoctorMemberDown: one of three is down.
func TestDoctorMemberDown(t *testing.T) {
	testserver.Long(t)
	srv := testserver.Start(t, testserver.Mongo3)
	admin := connect(t, srv.DSN())
	s := open(t, admin.Database("app"), Options{})
	srv.Kill(2)
	var r *doctor.Report
	for end := time.Now().Add(testserver.Patience(t)); ; time.Sleep(100 * time.Millisecond) {
		r = examine(t, s, doctor.Options{ReadOnly: true})
		if f := r.Of("RL206"); f[0].Severity == doctor.Warn || time.Now().After(end) {
			break
		}
	}
	finds(t, r, "RL206", doctor.Warn, "2 of 3")
}

// secondaries are the addresses of those that are none.
func secondaries(t testing.TB, c *mongo.Client) (hosts []string) {
	t.Helper()
	var hello struct {
		Hosts   []string
		Primary string
	}
	must(t, bson.Unmarshal(run(t, c, document.Op("hello", 1)), &hello))
	for _, h := range hello.Hosts {
		if h != hello.Primary {
			hosts = append(hosts, h)
		}
	}
	return hosts
}

// secondaryOf is the place of the last of them in the configuration.
func secondaryOf(t testing.TB, c *mongo.Client) int {
	t.Helper()
	var config struct {
		Config struct{ Members []struct{ Host string } }
	}
	must(t, bson.Unmarshal(run(t, c, document.Op("replSetGetConfig", 1)), &config))
	for i, m := range config.Config.Members {
		if hosts := secondaries(t, c); m.Host == hosts[len(hosts)-1] {
			return i
		}
	}
	t.Fatal("no secondary")
	return 0
}

// direct is a connection to a secondary.
func direct(t testing.TB, c *mongo.Client) *options.ClientOptions {
	t.Helper()
	return options.Client().ApplyURI("mongodb://" + secondaries(t, c)[0] + "/?directConnection=true")
}

// TestDoctorPrivileges: a user without rights is told which, and what it may not look at.
func TestDoctorPrivileges(t *testing.T) {
	key := filepath.Join(t.TempDir(), "key")
	must(t, os.WriteFile(key, []byte("cm93bG9ja3Jvd2xvY2tyb3dsb2Nr"), 0o600))
	srv := testserver.Start(t, testserver.Mongo, "--auth", "--keyFile", key)
	admin := connect(t, srv.DSN())
	finds(t, examine(t, storeOf(t, admin), doctor.Options{ReadOnly: true}), "RL211", doctor.Fail, "nobody is logged in")
	run(t, admin, bson.D{{Key: "createUser", Value: "root"}, {Key: "pwd", Value: "secret"}, {Key: "roles", Value: bson.A{"root"}}})
	r := examine(t, storeOf(t, admin), doctor.Options{})
	finds(t, r, "RL211", doctor.Fail, "refuses", "nobody is logged in")
	finds(t, r, "RL212", doctor.Skipped, "nobody is logged in")
	if r.Exit(false) != doctor.ExitFail {
		t.Errorf("exit code %d: %+v", r.Exit(false), r.Findings)
	}
	for _, f := range r.Findings {
		if strings.ContainsAny(f.Value, "{}") {
			t.Errorf("the server's copy of a command is no answer for people: %+v", f)
		}
	}
	as := func(user, password string) *mongo.Client {
		return connect(t, srv.DSN(), options.Client().SetAuth(options.Credential{Username: user, Password: password, AuthSource: "admin"}))
	}
	root := as("root", "secret")
	run(t, root, bson.D{{Key: "createUser", Value: "app"}, {Key: "pwd", Value: "app"}, {Key: "roles", Value: bson.A{bson.D{{Key: "role", Value: "read"}, {Key: "db", Value: "app"}}}}})
	must(t, storeOf(t, root).Migrate(t.Context()))
	finds(t, examine(t, storeOf(t, root), doctor.Options{}), "RL210", doctor.OK, "root")

	s := storeOf(t, as("app", "app"))
	r = examine(t, s, doctor.Options{})
	for _, f := range r.Findings {
		if strings.ContainsAny(f.Value, "{}") {
			t.Errorf("the server's copy of a command is no answer for people: %+v", f)
		}
	}
	f := finds(t, r, "RL210", doctor.Fail, "insert on locks", "remove on locks_tx")
	finds(t, r, "RL263", doctor.Fail)
	for _, id := range []string{"RL203", "RL204", "RL206", "RL208", "RL230", "RL250"} {
		finds(t, r, id, doctor.Skipped)
	}
	mend(t, root, f.Command)
	r = examine(t, s, doctor.Options{})
	finds(t, r, "RL210", doctor.OK, "app")
	finds(t, r, "RL213", doctor.OK)
	if r.Exit(false) != doctor.ExitOK || r.Exit(true) != doctor.ExitUnknown {
		t.Errorf("exit codes %d and %d: %+v", r.Exit(false), r.Exit(true), r.Findings)
	}
}

// TestDoctorWaking: a user with the privileges of locks alone cannot be told that a key is free.
func TestDoctorWaking(t *testing.T) {
	key := filepath.Join(t.TempDir(), "key")
	must(t, os.WriteFile(key, []byte("cm93bG9ja3Jvd2xvY2tyb3dsb2Nr"), 0o600))
	srv := testserver.Start(t, testserver.Mongo, "--auth", "--keyFile", key)
	run(t, connect(t, srv.DSN()), bson.D{{Key: "createUser", Value: "root"}, {Key: "pwd", Value: "secret"}, {Key: "roles", Value: bson.A{"root"}}})
	as := func(user string) *mongo.Client {
		return connect(t, srv.DSN(), options.Client().SetAuth(options.Credential{Username: user, Password: "secret", AuthSource: "admin"}))
	}
	root := as("root")
	full := storeOf(t, root)
	must(t, full.Migrate(t.Context()))
	privileges := bson.A{}
	for _, name := range full.collections() {
		privileges = append(privileges, bson.D{
			{Key: "resource", Value: bson.D{{Key: "db", Value: "app"}, {Key: "collection", Value: name}}},
			{Key: "actions", Value: bson.A{"find", "insert", "update", "remove"}},
		})
	}
	run(t, root, bson.D{{Key: "createRole", Value: "locker"}, {Key: "privileges", Value: privileges}, {Key: "roles", Value: bson.A{}}})
	run(t, root, bson.D{{Key: "createUser", Value: "app"}, {Key: "pwd", Value: "secret"}, {Key: "roles", Value: bson.A{"locker"}}})
	s := storeOf(t, as("app"))
	r := examine(t, s, doctor.Options{})
	finds(t, r, "RL210", doctor.OK)
	mend(t, root, finds(t, r, "RL213", doctor.Warn, "changeStream on locks").Command)
	finds(t, examine(t, s, doctor.Options{}), "RL213", doctor.OK)
}

func storeOf(t testing.TB, c *mongo.Client) *Store {
	t.Helper()
	s, err := New(c.Database("app").Collection("locks"), Options{})
	must(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// TestDoctorStandalone: a server that cannot keep locks.
func TestDoctorStandalone(t *testing.T) {
	srv := testserver.Start(t, testserver.MongoStandalone)
	s := storeOf(t, connect(t, srv.DSN()))
	r := examine(t, s, doctor.Options{})
	finds(t, r, "RL201", doctor.Fail, "standalone")
	if !strings.HasSuffix(r.Server, ", standalone") {
		t.Errorf("it is called %q", r.Server)
	}
	for _, f := range r.Findings { // nothing that only a replica set has, and nothing that more rights or a migration would mend
		if f.Severity != doctor.OK && f.ID != "RL201" && f.ID != "RL260" && !strings.Contains(f.Value, "URI") {
			t.Errorf("%+v", f)
		}
	}
	for _, id := range []string{"RL203", "RL205", "RL206", "RL207", "RL209", "RL220"} {
		if f := r.Of(id); f != nil {
			t.Errorf("%+v", f)
		}
	}
	if r.Exit(false) != doctor.ExitFail {
		t.Errorf("exit code %d", r.Exit(false))
	}
}

// TestDoctorNotPersistent: a storage engine that keeps nothing over a restart.
func TestDoctorNotPersistent(t *testing.T) {
	srv := testserver.Start(t, testserver.MongoStandalone, "--storageEngine", "ephemeralForTest")
	finds(t, examine(t, storeOf(t, connect(t, srv.DSN())), doctor.Options{}), "RL204", doctor.Fail, "ephemeralForTest")
}

// TestDoctorLatency: a TTL that is too short for the database.
func TestDoctorLatency(t *testing.T) {
	t.Parallel()
	s := shared(t)
	var r *doctor.Report
	for range 20 { // a server under load may not finish a step in time
		r = examine(t, s, doctor.Options{TTL: time.Millisecond, Failover: time.Minute})
		if r.Renewal.P99 > 0 {
			break
		}
	}
	finds(t, r, "RL261", doctor.Fail, "1ms")
	finds(t, r, "RL262", doctor.Warn, "1m0s")
	again := doctor.New(doctor.Mongo(), doctor.Options{})
	again.Renewal = r.Renewal
	again.Judge("RL261", "RL262", doctor.Options{TTL: 10 * r.Renewal.P99}, 0)
	finds(t, again, "RL261", doctor.Warn)
}

// TestDoctorTimeoutMS: a limit on all statements of the client is looked at, and good where it is long enough, or none.
func TestDoctorTimeoutMS(t *testing.T) {
	t.Parallel()
	s := shared(t)
	for _, query := range []string{"", "timeoutMS=0", "timeoutMS=30000"} {
		finds(t, examine(t, s, doctor.Options{ReadOnly: true, URI: "mongodb://db:27017/app?" + query}), "RL235", doctor.OK, "timeoutMS is ")
	}
}
