package main

import (
	"context"
	"crypto/rand"
	"database/sql"
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/docpage"
	"github.com/rowlock/rowlock/internal/testserver"
)

const runbook = "../../docs/runbook.md"

// incident is what has happened when somebody opens the runbook: the steps of its name are run after it, those
// at each prompt on a database of their own.
type incident struct {
	happens func(*scene)           // nil: nothing
	after   func(*scene, []string) // what must hold after the steps, with the answers to each of them; nil: nothing
	numbers bool                   // the answers are numbers and verdicts that depend on the machine
	only    string                 // of an answer of mongosh the documents that have this text: others use the server too
	sql     bool                   // the commands answer so on MySQL and MariaDB only
	again   int                    // how often it is asked again for the answer of the page, a second later
}

// scene is a host with a database in which an incident has happened.
type scene struct {
	*host
	kind    string
	address string
	replace []string // words of the page, and what they stand for
	only    string   // as of the incident
}

// connect opens the database as an operator does, with a client for SQL.
func (s *scene) connect() *sql.DB {
	s.t.Helper()
	u, err := url.Parse(s.address)
	must(s.t, err)
	db, err := sql.Open("mysql", u.User.String()+"@tcp("+u.Host+")"+u.Path)
	must(s.t, err)
	s.t.Cleanup(func() { _ = db.Close() })
	return db
}

// database opens the database as an operator does, with mongosh.
func (s *scene) database() *mongo.Database {
	s.t.Helper()
	client, err := mongo.Connect(options.Client().ApplyURI(s.address).SetAppName("web1"))
	must(s.t, err)
	s.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		_ = client.Disconnect(ctx)
	})
	u, err := url.Parse(s.address)
	must(s.t, err)
	return client.Database(strings.Trim(u.Path, "/"))
}

// change changes the row or document of the key by hand.
func (s *scene) change(statement string, update any) {
	s.t.Helper()
	if s.kind != testserver.Mongo {
		_, err := s.connect().Exec(statement)
		must(s.t, err)
		return
	}
	_, err := s.database().Collection("locks").UpdateOne(s.t.Context(), bson.D{{Key: "name", Value: "report"}}, update)
	must(s.t, err)
}

// dead takes the key as a program that dies at once.
func (s *scene) dead(ttl time.Duration, guarded bool) driver.Result {
	s.t.Helper()
	q := driver.Request{Key: "report", Owner: "web1:812", TTL: ttl, Guarded: guarded}
	_, _ = rand.Read(q.ID[:])
	var result driver.Result
	eventually(s.t, "the key is granted", func() bool {
		results, err := s.store.Acquire(s.t.Context(), []driver.Request{q})
		must(s.t, err)
		result = results[0]
		return result.Status == driver.Granted
	})
	return result
}

// alive takes the key as a program that lives.
func (s *scene) alive(options string) {
	s.t.Helper()
	s.background("rowlock run --ttl 8s --owner web1:812 " + options + " report -- sleep 600")
	eventually(s.t, "somebody has the key", func() bool { return s.inspect().Held })
}

func (s *scene) inspect() driver.Info {
	s.t.Helper()
	infos, err := s.store.Inspect(s.t.Context(), []string{"report"})
	must(s.t, err)
	return infos[0]
}

func isFree(s *scene, _ []string) {
	s.t.Helper()
	if i := s.inspect(); i.Held || i.Pinned {
		s.t.Errorf("the key is not free: %+v", i)
	}
}

// isFreed: the key is free, and tokens that were given before are too small.
func isFreed(s *scene, _ []string) {
	s.t.Helper()
	isFree(s, nil)
	var before int64
	_, err := fmt.Sscan(s.replace[1], &before)
	must(s.t, err)
	if got := s.inspect().Token; got < before+driver.TokenRange {
		s.t.Errorf("the token is %d after %d", got, before)
	}
}

var incidents = map[string]incident{
	"list":  {happens: func(s *scene) { s.alive("") }, numbers: true},
	"lives": {happens: func(s *scene) { s.alive("") }, after: rose},
	"free":  {happens: func(s *scene) { s.dead(40*time.Second, false) }, after: isFreed},
	"missed": {happens: func(s *scene) {
		s.program("report", "true")
		s.run("rowlock run --period 10m report -- report")
	}, numbers: true},
	"pinned": {happens: pin, after: unpinned, only: "web1", numbers: true, sql: true},
	"waits": {happens: func(s *scene) {
		s.alive("")
		for range 2 {
			s.background("rowlock run report -- true")
		}
		eventually(s.t, "two wait", func() bool { return strings.Contains(s.run("rowlock show --quick report"), "2 programs") })
	}, numbers: true, again: 20},
	"long": {happens: func(s *scene) {
		s.dead(10*time.Minute, false)
		s.change("UPDATE rowlock_version SET acquired_at=acquired_at-INTERVAL 130 MINUTE",
			bson.A{bson.D{{Key: "$set", Value: bson.D{{Key: "acquiredAt", Value: bson.D{{Key: "$subtract", Value: bson.A{"$acquiredAt", 130 * 60 * 1000}}}}}}}})
	}},
	"rows": {happens: func(s *scene) {
		s.run("rowlock run report -- true")
		s.change("UPDATE rowlock_version SET acquired_at=acquired_at-INTERVAL 3 DAY, expires_at=expires_at-INTERVAL 3 DAY, token=token-1024*259200000000, released_at=released_at-INTERVAL 3 DAY",
			bson.A{bson.D{{Key: "$set", Value: bson.D{{Key: "expiresAt", Value: bson.D{{Key: "$subtract", Value: bson.A{"$expiresAt", 3 * 24 * 3600 * 1000}}}}}}}})
	}, numbers: true, sql: true},
	"late":        {numbers: true, sql: true},
	"connections": {numbers: true, sql: true},
	"primary":     {sql: true},
	"clock":       {numbers: true, sql: true},
}

// rose: of a holder that lives the end of the lease is later at the second look, of one that is dead it is not.
func rose(s *scene, answers []string) {
	s.t.Helper()
	if s.kind == testserver.Mongo && len(answers) > 2 && answers[0] == answers[2] {
		s.t.Errorf("the lease of a holder that lives still ends at %s", answers[2])
	}
}

// pin leaves an open transaction that is guarded by a lease which is over.
func pin(s *scene) {
	s.t.Helper()
	granted := s.dead(5*time.Second, true)
	if s.kind == testserver.Mongo {
		session, err := s.database().Client().StartSession()
		must(s.t, err)
		s.t.Cleanup(func() { session.EndSession(context.Background()) })
		must(s.t, session.StartTransaction())
		ctx := mongo.NewSessionContext(s.t.Context(), session)
		changed, err := session.Client().Database(s.database().Name()).Collection("locks_fence").UpdateOne(ctx,
			bson.D{{Key: "_id", Value: bson.Binary{Data: []byte("report")}}}, bson.D{{Key: "$inc", Value: bson.D{{Key: "n", Value: int64(1)}}}})
		must(s.t, err)
		if changed.MatchedCount != 1 {
			s.t.Fatal("the guarded lease has no fence")
		}
		_, id := session.ID().Lookup("id").Binary()
		s.replace = append(s.replace, "USER", "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=", // of a server without users
			"SESSION", fmt.Sprintf("%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:]))
	} else {
		tx, err := s.connect().Begin()
		must(s.t, err)
		s.t.Cleanup(func() { _ = tx.Rollback() })
		var id string
		must(s.t, tx.QueryRow("SELECT CONNECTION_ID() FROM rowlock_version FORCE INDEX (guard) WHERE token=? AND name='report' LOCK IN SHARE MODE", granted.Token).Scan(&id))
		s.replace = append(s.replace, "4711", id)
	}
	eventually(s.t, "the key is pinned", func() bool { return s.next() == driver.Pinned })
	if got := s.run("rowlock run --no-wait report -- true"); !strings.Contains(got, "open transaction") {
		s.t.Errorf("who asks for the key is told %s", got)
	}
	if got := s.run("rowlock show --quick report"); s.kind == testserver.Mongo && !strings.Contains(got, "free") {
		s.t.Errorf("on MongoDB show does not say free, but %s", got)
	}
}

// next is the answer to another program that asks for the key.
func (s *scene) next() driver.Status {
	s.t.Helper()
	results, err := s.store.Acquire(s.t.Context(), []driver.Request{{Key: "report", ID: driver.HoldID{1}, Owner: "web2:67", TTL: time.Minute}})
	must(s.t, err)
	return results[0].Status
}

// unpinned: the steps by hand have ended the transaction; rowlock only shows that it is there.
func unpinned(s *scene, answers []string) {
	if len(answers) > 1 {
		eventually(s.t, "the key can be had", func() bool { return s.next() == driver.Granted })
	}
}

// newScene makes one in which the incident has happened.
func newScene(t *testing.T, kind string, of incident) *scene {
	t.Helper()
	address := database(t, kind)
	s := &scene{host: newHost(t, address), kind: kind, address: address, only: of.only}
	s.env = append(s.env, "ROWLOCK_DB="+address)
	must(t, s.store.Migrate(t.Context()))
	if of.happens != nil {
		of.happens(s)
	}
	if token := s.inspect().Token; token != 0 {
		s.replace = append([]string{"TOKEN", fmt.Sprint(token)}, s.replace...)
	}
	return s
}

// What is never the same in answers: by hand, and of what is measured.
var (
	byHand = []pattern{
		{regexp.MustCompile(`ISODate\('[^']*'\)`), "DATE"},
		{regexp.MustCompile(`DATE\.\d+`), "DATE"},
		{regexp.MustCompile(`(millisLeft|openMicros): Long\('\d+'\)`), "$1: TIME"},
		{regexp.MustCompile(`UUID\('[^']*'\)`), "ID"},
		{regexp.MustCompile(`createFromBase64\('[^']*', 0\)`), "UID"},
		{regexp.MustCompile(`\b(\d+\.\d+\.\d+\.\d+|localhost|db1)(:\d+)?\b`), "ADDRESS"},
		{regexp.MustCompile(`\b(root|app)\b`), "USER"},
	}
	measured = []pattern{
		{regexp.MustCompile(`TIME|\b[0-9.]+µs`), "0"},
		{regexp.MustCompile(`[0-9]+([.e+]+[0-9]+)*`), "0"},
		{regexp.MustCompile(`\b(warn|fail)\b`), "ok"},
		{regexp.MustCompile(`ahead of`), "behind"},
	}
)

type pattern struct {
	what *regexp.Regexp
	with string
}

// normal is an answer without what is never the same.
func (of incident) normal(prompt, text string) string {
	text = steady(strings.TrimSpace(text))
	if prompt == mongoDB {
		text = strings.Join(strings.Fields(text), " ") // the shell breaks its lines by their length
	}
	for _, v := range byHand {
		text = v.what.ReplaceAllString(text, v.with)
	}
	if of.numbers {
		for _, v := range measured {
			text = v.what.ReplaceAllString(text, v.with)
		}
	}
	var lines []string
	for line := range strings.Lines(text) {
		lines = append(lines, strings.TrimSpace(line))
	}
	return strings.Join(lines, "\n")
}

// step is a command or statement, with the answer that the page has; "" if it has none.
type step struct{ prompt, text, answer string }

// Prompts of a block.
const (
	shell   = "$"
	sqlDB   = "mysql>"
	mongoDB = "mongosh>"
)

// steps reads a block: those at one prompt.
func steps(block, prompt string) (all []step) {
	var last *step
	var read []*step
	for line := range strings.Lines(block) {
		first, rest, _ := strings.Cut(line, " ")
		switch {
		case first == shell || first == sqlDB || first == mongoDB:
			last = &step{prompt: first, text: rest}
			read = append(read, last)
		case last.whole():
			last.answer += line
		default:
			last.text += line
		}
	}
	for _, s := range read {
		if s.prompt == prompt {
			all = append(all, *s)
		}
	}
	return all
}

// whole reports whether nothing of a statement is missing.
func (s *step) whole() bool {
	switch s.prompt {
	case sqlDB:
		return strings.HasSuffix(s.text, ";\n")
	case mongoDB:
		return strings.Count(s.text, "(") == strings.Count(s.text, ")")
	}
	return true
}

// do runs a step and returns its answer.
func (s *scene) do(one step, conn *sql.Conn, db *mongo.Database) string {
	s.t.Helper()
	text := strings.NewReplacer(s.replace...).Replace(one.text)
	switch one.prompt {
	case shell:
		return s.run(strings.TrimSpace(text))
	case sqlDB:
		return s.query(conn, strings.TrimSuffix(strings.TrimSpace(text), ";"))
	}
	return mongosh(s.t, db, text, s.only)
}

// query is what the client for SQL shows.
func (s *scene) query(conn *sql.Conn, text string) string {
	s.t.Helper()
	ctx := s.t.Context()
	if !strings.HasPrefix(text, "S") {
		r, err := conn.ExecContext(ctx, text)
		must(s.t, err)
		n, err := r.RowsAffected()
		must(s.t, err)
		return strings.Replace(fmt.Sprintf("Query OK, %d rows affected", n), "1 rows", "1 row", 1)
	}
	rows, err := conn.QueryContext(ctx, text)
	if err != nil {
		s.t.Fatalf("%s: %v", text, err)
	}
	defer rows.Close()
	columns, err := rows.Columns()
	must(s.t, err)
	var b strings.Builder
	table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, strings.Join(columns, "\t"))
	n := 0
	for ; rows.Next(); n++ {
		values, into := make([]sql.NullString, len(columns)), make([]any, len(columns))
		for i := range values {
			into[i] = &values[i]
		}
		must(s.t, rows.Scan(into...))
		fields := make([]string, len(columns))
		for i, v := range values {
			if fields[i] = v.String; !v.Valid {
				fields[i] = "NULL"
			}
		}
		fmt.Fprintln(table, strings.Join(fields, "\t"))
	}
	must(s.t, rows.Err())
	must(s.t, table.Flush())
	if n == 0 {
		return "Empty set"
	}
	return b.String()
}

// prompts are those at which an operator of a database is.
var prompts = map[string][]string{
	testserver.MySQL:   {shell, sqlDB},
	testserver.MariaDB: {shell, sqlDB},
	testserver.Mongo:   {shell, mongoDB},
}

// TestRunbook runs each step of the runbook, as a command, as SQL and in mongosh, after what it is for has happened:
// it answers what the page says, and has its effect.
func TestRunbook(t *testing.T) {
	blocks := docpage.Blocks(t, runbook, "step")
	if len(blocks) != len(incidents) {
		t.Errorf("%d blocks, and %d incidents", len(blocks), len(incidents))
	}
	for _, block := range blocks {
		of, known := incidents[block.Name]
		if !known {
			t.Errorf("no incident is known for the block %s", block.Name)
			continue
		}
		t.Run(block.Name, func(t *testing.T) {
			t.Parallel()
			for _, kind := range testserver.Some(t, kinds...) {
				for _, prompt := range prompts[kind] {
					all := steps(block.Text, prompt)
					switch {
					case len(all) == 0:
						t.Errorf("the block %s has no step at %s", block.Name, prompt)
					case !of.sql || prompt != shell || kind != testserver.Mongo:
						t.Run(kind+"/"+prompt, func(t *testing.T) {
							t.Parallel()
							newScene(t, kind, of).follow(of, all)
						})
					}
				}
			}
		})
	}
}

// follow does steps and compares their answers with those of the page.
func (s *scene) follow(of incident, all []step) {
	s.t.Helper()
	var answers []string
	conn, db := s.clients()
	for _, one := range all {
		got := s.do(one, conn, db)
		for range of.again {
			if of.normal(one.prompt, got) == of.normal(one.prompt, one.answer) {
				break
			}
			time.Sleep(time.Second)
			got = s.do(one, conn, db)
		}
		answers = append(answers, got)
		if want := one.answer; (want != "" || one.prompt == shell) && of.normal(one.prompt, got) != of.normal(one.prompt, want) {
			s.t.Errorf("%s\n%s\nthe page has\n%s", one.text, got, want)
		}
	}
	if of.after != nil {
		of.after(s, answers)
	}
}

// clients are those of an operator: for SQL, or for MongoDB.
func (s *scene) clients() (*sql.Conn, *mongo.Database) {
	s.t.Helper()
	if s.kind == testserver.Mongo {
		return nil, s.database()
	}
	conn, err := s.connect().Conn(s.t.Context())
	must(s.t, err)
	s.t.Cleanup(func() { _ = conn.Close() })
	return conn, nil
}

// TestRunbookSeesDeath: the steps that show a holder which lives show one that is dead as such.
func TestRunbookSeesDeath(t *testing.T) {
	const dead = "no sign of it"
	for _, kind := range testserver.Some(t, kinds...) {
		for _, prompt := range prompts[kind] {
			t.Run(kind+"/"+prompt, func(t *testing.T) {
				t.Parallel()
				s := newScene(t, kind, incident{happens: func(s *scene) { s.dead(30*time.Second, false) }})
				conn, db := s.clients()
				var answers []string
				for _, one := range steps(docpage.One(t, runbook, "step", "lives"), prompt) {
					answers = append(answers, s.do(one, conn, db))
				}
				last := answers[len(answers)-1]
				if prompt == mongoDB && answers[0] != last {
					t.Errorf("the lease of a dead holder ends at %s and at %s", answers[0], last)
				}
				if prompt != mongoDB && !strings.Contains(last, dead) {
					t.Errorf("of a dead holder it says %s", last)
				}
			})
		}
	}
}
