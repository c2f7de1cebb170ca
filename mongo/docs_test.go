package mongolock

import (
	"context"
	"errors"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/docpage"
	"github.com/rowlock/rowlock/internal/testserver"
	"github.com/rowlock/rowlock/mongo/internal/document"
)

const (
	strategiesPage = "../docs/strategies.md"
	operationsPage = "../docs/operations.md"
)

// TestDocsCommands: the commands in docs/strategies.md are those that the Store sends, and all that it sends in the
// steps of the page. Only what differs from run to run is made the same.
func TestDocsCommands(t *testing.T) {
	words := shorthand(t)
	onPage := make(map[string][]string) // by the name of the block
	var all []string
	for _, b := range docpage.Blocks(t, strategiesPage, "command") {
		for _, text := range strings.Split(b.Text, "\n\n") {
			for _, w := range words {
				text = strings.ReplaceAll(text, w.word, w.means)
			}
			var cmd bson.D
			if err := bson.UnmarshalExtJSON([]byte(text), false, &cmd); err != nil {
				t.Fatalf("block %q: %v", b.Name, err)
			}
			onPage[b.Name] = append(onPage[b.Name], inWords(t, cmd))
		}
		all = append(all, onPage[b.Name]...)
	}
	sent := tell(t)
	for name, commands := range onPage {
		for _, c := range commands {
			if !slices.Contains(sent[name], c) {
				t.Errorf("block %q: not sent: %s\nsent:\n%s", name, c, strings.Join(sent[name], "\n"))
			}
		}
	}
	for step, commands := range sent {
		for _, c := range commands {
			if !slices.Contains(all, c) {
				t.Errorf("step %q sends what is not on the page:\n%s", step, c)
			}
		}
	}
}

type abbreviation struct{ word, means string }

// shorthand reads what the page's words in capitals stand for, in the order in which they are to be replaced.
func shorthand(t testing.TB) []abbreviation {
	t.Helper()
	var words []abbreviation
	for _, line := range strings.Split(strings.TrimSpace(docpage.One(t, strategiesPage, "words", "MongoDB")), "\n") {
		word, means, ok := strings.Cut(line, " = ")
		if !ok {
			t.Fatalf("the line %q of the words is none", line)
		}
		words = append(words, abbreviation{strings.TrimSpace(word), means})
	}
	return words
}

// varying is what differs from run to run.
var varying = []struct {
	from *regexp.Regexp
	to   string
}{
	{regexp.MustCompile(`"txnNumber":[0-9]+`), `"txnNumber":1099511627777`},
	{regexp.MustCompile(`"afterClusterTime":\{"\$timestamp":\{[^}]*\}\}`), `"afterClusterTime":{"$timestamp":{"t":1795229000,"i":1}}`},
	{regexp.MustCompile(`"token":[0-9]{15,}`), `"token":839022931575111680`},
	{regexp.MustCompile(`"hold":[0-9]{15,}`), `"hold":839022931575111680`},
	{regexp.MustCompile(`"\$token",[0-9]{15,}`), `"$token",839022931575111680`},
	{regexp.MustCompile(`"base64":"[^"]*","subType":"04"`), `"base64":"Tnp0vY2HTCeaZXE2oVqf3g==","subType":"04"`},
	{regexp.MustCompile(`"maxTimeMS":(9[0-9]{2}|1000)\b`), `"maxTimeMS":1000`}, // less the time of a trip
	{regexp.MustCompile(`"maxTimeMS":2[0-4][0-9]\b`), `"maxTimeMS":250`},
}

// inWords is a command in relaxed extended JSON, without what the driver adds to it.
func inWords(t testing.TB, cmd bson.D) string {
	t.Helper()
	cmd = slices.DeleteFunc(cmd, func(e bson.E) bool {
		return slices.Contains([]string{"lsid", "$clusterTime", "$db", "$readPreference"}, e.Key)
	})
	text, err := bson.MarshalExtJSON(cmd, false, false)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range varying {
		text = v.from.ReplaceAllLiteral(text, []byte(v.to))
	}
	return string(text)
}

// tell is the story of the page: what is sent in each step.
func tell(t *testing.T) map[string][]string {
	t.Helper()
	var mu sync.Mutex
	var noted []bson.D
	monitor := &event.CommandMonitor{Started: func(_ context.Context, e *event.CommandStartedEvent) {
		var cmd bson.D
		if err := bson.Unmarshal(e.Command, &cmd); err == nil {
			mu.Lock()
			noted = append(noted, cmd)
			mu.Unlock()
		}
	}}
	s := open(t, database(t, testserver.DSN(t, testserver.Mongo), options.Client().SetMonitor(monitor)), Options{})
	if err := s.firstUse.do(t.Context(), s.Check); err != nil {
		t.Fatal(err)
	}
	sent := make(map[string][]string)
	step := func(name string, f func() bool) {
		t.Helper()
		for try := 1; ; try++ {
			mu.Lock()
			noted = nil
			mu.Unlock()
			s.cmd.One.Forget() // the limits of an idle server
			s.fence.Forget()
			ok := f()
			mu.Lock()
			cmds := noted
			mu.Unlock()
			if !ok { // the server did not come to it in the 50 ms it has
				if try == 5 {
					t.Fatalf("step %q: another answer each time", name)
				}
				continue
			}
			for _, cmd := range cmds {
				one := inWords(t, cmd)
				again := strings.Contains(one, `"writeConcern"`) && strings.HasSuffix(one, `"maxTimeMS":60000}`) // only the majority was late
				if !again && !slices.Contains(sent[name], one) {
					sent[name] = append(sent[name], one)
				}
			}
			return
		}
	}
	ctx := t.Context()
	report := driver.Request{Key: "report", ID: driver.HoldID{0x00, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff}, Owner: "web-1:4711", TTL: 30 * time.Second}
	upload := report
	upload.Key, upload.ID = "upload", driver.HoldID{0xff, 0xee, 0xdd, 0xcc, 0xbb, 0xaa, 0x99, 0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11, 0x00}
	hold := func(q driver.Request) driver.Hold {
		return driver.Hold{Key: q.Key, ID: q.ID, TTL: q.TTL, Keep: q.Keep}
	}
	gives := func(want driver.Status) func([]driver.Result, error) bool {
		return func(results []driver.Result, err error) bool {
			for _, r := range results {
				if r.Status != want {
					return false
				}
			}
			return err == nil
		}
	}
	acquire := func(want driver.Status, reqs ...driver.Request) bool { return gives(want)(s.Acquire(ctx, reqs)) }
	renew := func(want driver.Status, holds ...driver.Hold) bool { return gives(want)(s.Renew(ctx, holds)) }
	release := func(want driver.Status, holds ...driver.Hold) bool { return gives(want)(s.Release(ctx, holds)) }

	step("acquire", func() bool { return acquire(driver.Granted, report) })
	step("inspect", func() bool { _, err := s.Inspect(ctx, []string{"report"}); return err == nil })
	step("list", func() bool { _, err := s.List(ctx, "re", "", 100); return err == nil })
	step("renew", func() bool { return renew(driver.Alive, hold(report)) })
	step("renew with MaxHold", func() bool {
		h := hold(report)
		h.MaxHold = time.Hour
		return renew(driver.Alive, h)
	})
	step("release", func() bool { return release(driver.Released, hold(report)) })
	step("survivors", func() bool { return renew(driver.Removed, hold(report)) })

	acquire(driver.Granted, upload)
	release(driver.Released, hold(upload))
	step("several", func() bool { return acquire(driver.Granted, report, upload) })
	step("renew several", func() bool { return renew(driver.Alive, hold(report), hold(upload)) })
	step("release several", func() bool { return release(driver.Released, hold(report), hold(upload)) })
	step("several new", func() bool {
		if _, err := s.db.Collection(s.leases).DeleteMany(ctx, document.Op("_id", document.Op("$type", "binData"))); err != nil {
			t.Fatal(err)
		}
		mu.Lock()
		noted = nil
		mu.Unlock()
		return acquire(driver.Granted, report, upload)
	})
	release(driver.Released, hold(report), hold(upload))

	keep := report
	keep.Keep = 10 * time.Minute
	acquire(driver.Granted, keep)
	step("undo of a grant", func() bool {
		h := hold(keep)
		h.Undo = true
		return release(driver.Released, h)
	})
	step("undo", func() bool {
		o, err := s.sessions.Get()
		if err != nil {
			t.Fatal(err)
		}
		s.sessions.AddUnanswered(o, report.ID)
		h := hold(report)
		h.Undo = true
		return release(driver.Removed, h)
	})
	guarded := report
	guarded.Guarded = true
	step("guarded", func() bool { return acquire(driver.Granted, guarded) })
	sent["guarded"] = sent["guarded"][1:] // the first is the acquire with another word, which the page tells
	step("transaction", func() bool {
		c := locker(t, s, rowlock.Options{})
		lease, err := c.TryAcquire(ctx, "daily", rowlock.Guarded())
		if err != nil {
			return false
		}
		mu.Lock()
		noted = nil
		mu.Unlock()
		err = s.Once(ctx, lease, "2026-07-01", func(context.Context) error { return nil })
		mu.Lock()
		cmds := noted
		mu.Unlock()
		_ = lease.Release(ctx)
		mu.Lock()
		noted = cmds
		mu.Unlock()
		return err == nil
	})
	step("lock", func() bool {
		err := s.WaitTx(ctx, "report")
		_, inside := begin(t, s)
		if err == nil {
			err = s.LockTx(inside, "report")
		}
		return err == nil
	})
	step("pinned", func() bool { _, err := s.fence.Written(ctx, "report"); return err == nil })
	step("pinned by a transaction", func() bool {
		ended, err := s.fence.EndOlder(ctx, []string{"report"}, []int64{1 << 62})
		return ended && err == nil
	})
	step("inspect guarded", func() bool { _, err := s.Inspect(ctx, []string{"report"}); return err == nil })
	step("force", func() bool { _, err := s.ForceRelease(ctx, "report"); return err == nil })
	if _, err := s.db.Collection(s.leases).UpdateOne(ctx, document.ByKey("report"), document.Op("$set", document.Op("expiresAt", time.Now().Add(-48*time.Hour)))); err != nil {
		t.Fatal(err)
	}
	step("reap", func() bool { n, err := s.Reap(ctx, 24*time.Hour); return n == 1 && err == nil })
	phases(t, s, step)
	inLineOf(t, s, step, report)
	sent["guarded shared"] = slices.Delete(sent["guarded shared"], 1, 2) // the join with other words
	return sent
}

// inLineOf is the part of the story about those who wait.
func inLineOf(t *testing.T, s *Store, step func(string, func() bool), report driver.Request) {
	ctx := t.Context()
	report.Key = "upload" // so that nobody has stood for the key of the other steps
	release(t, s, granted(t, s, report))
	waiting := report
	waiting.ID, waiting.Stand, waiting.Claim = driver.HoldID{0xff, 0xee, 0xdd, 0xcc, 0xbb, 0xaa, 0x99, 0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11, 0x00}, true, time.Second
	h := granted(t, s, report)
	h = driver.Hold{Key: h.Key, ID: h.ID}
	place := func() bool {
		results, err := s.Acquire(ctx, []driver.Request{waiting})
		return err == nil && results[0].Status == driver.Held && results[0].Place == 1
	}
	place()
	step("stand", place)
	step("look", func() bool {
		views, err := s.Look(ctx, []driver.Entry{document.EntryOf(waiting)})
		return err == nil && views[0].Place == 1
	})
	step("pass", func() bool {
		results, err := s.Release(ctx, []driver.Hold{h})
		return err == nil && results[0].Status == driver.Released
	})
	confirmed := driver.Hold{Key: report.Key, ID: waiting.ID, TTL: report.TTL, Owner: report.Owner, Confirm: true}
	step("confirm", func() bool {
		results, err := s.Renew(ctx, []driver.Hold{confirmed})
		return err == nil && results[0].Status == driver.Alive
	})
	release(t, s, confirmed)
}

var shellCall = regexp.MustCompile(`(?s)^db\.(?:(\w+)\.)?(\w+)\((.*)\)\s*$`)

// shell runs a call of mongosh whose arguments are JSON, and returns the documents of its answer.
func shell(t testing.TB, db *mongo.Database, text string) []bson.M {
	t.Helper()
	m := shellCall.FindStringSubmatch(text)
	if m == nil {
		t.Fatalf("no call of the shell: %s", text)
	}
	var args struct{ Args bson.A }
	if err := bson.UnmarshalExtJSON([]byte(`{"args":[`+m[3]+`]}`), false, &args); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	coll, ctx := db.Collection(m[1]), context.Background()
	var docs []bson.M
	var err error
	switch m[2] {
	case "aggregate":
		var cursor *mongo.Cursor
		if cursor, err = coll.Aggregate(ctx, args.Args[0]); err == nil {
			err = cursor.All(ctx, &docs)
		}
	case "updateOne":
		// The third argument, the majority, is what the server takes by default.
		var r *mongo.UpdateResult
		if r, err = coll.UpdateOne(ctx, args.Args[0], args.Args[1]); err == nil && r.ModifiedCount != 1 {
			t.Fatalf("%s: changed %d documents", text, r.ModifiedCount)
		}
	case "runCommand":
		err = db.RunCommand(ctx, args.Args[0]).Err()
	default:
		t.Fatalf("a call that the test does not know: %s", text)
	}
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return docs
}

// TestDocsNight: what docs/operations.md tells to do about a stuck lock does what it says: it shows who has the key, frees
// it, the holder learns the reason and the token rises.
func TestDocsNight(t *testing.T) {
	t.Parallel()
	s := shared(t)
	night := func(name string) []bson.M {
		t.Helper()
		return shell(t, s.db, docpage.One(t, operationsPage, "night", "mongo "+name))
	}
	const ttl = 15 * time.Second
	newClient := func(owner string) *rowlock.Client {
		c, err := rowlock.New(s, rowlock.Options{TTL: ttl, Owner: owner, ReapInterval: -1})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close(context.Background()) })
		return c
	}
	holder, next := newClient("web-1:4711"), newClient("web-2:4712")
	ctx, cancel := context.WithTimeout(t.Context(), testserver.Patience(t))
	defer cancel()
	lease, err := holder.Acquire(ctx, "report", rowlock.Guarded())
	if err != nil {
		t.Fatal(err)
	}
	waiter := driver.Request{Key: "report", ID: newID(), TTL: time.Minute, Stand: true, Claim: time.Second, EntryTime: driver.MaxEntryTime}
	for waiting := range int32(2) {
		if waiting > 0 {
			if r, err := s.Acquire(ctx, []driver.Request{waiter}); err != nil || r[0].Place != 1 {
				t.Fatalf("the waiter: %+v, %v", r, err)
			}
		}
		who := night("who")
		if len(who) != 1 || who[0]["name"] != "report" || who[0]["owner"] != "web-1:4711" || who[0]["heldNotKept"] != true || who[0]["waiting"] != waiting {
			t.Fatalf("who holds it: %v", who)
		}
		if left := who[0]["millisLeft"].(int64); left > ttl.Milliseconds() {
			t.Errorf("%d wait, and %d ms of a lease of %v are left", waiting, left, ttl)
		}
	}
	if r, err := s.Release(ctx, []driver.Hold{{Key: "report", ID: waiter.ID, Undo: true}}); err != nil || r[0].Status != driver.Released {
		t.Fatalf("the waiter leaves: %+v, %v", r, err)
	}
	night("free")
	night("fence")
	if info, err := next.Inspect(ctx, "report"); err != nil || info.Held || info.Token != lease.Token()+driver.TokenRange {
		t.Errorf("not free at once: %+v, %v", info, err)
	}
	var fence struct{ Token int64 }
	if err := s.db.Collection(s.fences).FindOne(ctx, document.ByKey("report")).Decode(&fence); err != nil || fence.Token <= lease.Token() {
		t.Errorf("the fence is %d after token %d: %v", fence.Token, lease.Token(), err)
	}
	select {
	case <-lease.Done():
	case <-ctx.Done():
		t.Fatal("the holder did not learn of it")
	}
	var lost *rowlock.LostError
	if err := lease.Err(); !errors.As(err, &lost) || lost.Reason != rowlock.ReasonForced {
		t.Errorf("the holder learns %v, want the reason forced", err)
	}
	again, err := next.Acquire(ctx, "report")
	if err != nil {
		t.Fatal(err)
	}
	if again.Token() < lease.Token()+2*driver.TokenRange {
		t.Errorf("token %d after %d", again.Token(), lease.Token())
	}
}

// TestDocsRole: the role in docs/operations.md can be created, and has the rights with which TestSmallRights runs.
func TestDocsRole(t *testing.T) {
	t.Parallel()
	s := shared(t)
	text := docpage.One(t, operationsPage, "setup", "mongo role")
	if n := strings.Count(text, `"actions": ["find", "insert", "update", "remove"`); n != 4 {
		t.Errorf("%d collections have the four rights", n)
	}
	if !strings.Contains(text, `"collection": "locks"}, "actions": ["find", "insert", "update", "remove", "changeStream"]`) {
		t.Error("the change stream is missing")
	}
	for _, c := range []string{s.leases, s.fences, s.runs, s.txs} {
		if !strings.Contains(text, `"collection": "`+c+`"`) {
			t.Errorf("%s is missing", c)
		}
	}
	t.Cleanup(func() { s.db.RunCommand(context.Background(), document.Op("dropRole", "rowlock")) })
	shell(t, s.db, strings.ReplaceAll(text, `"app"`, `"`+s.db.Name()+`"`))
}

// phases is what is sent of readers and slots.
func phases(t *testing.T, s *Store, step func(string, func() bool)) {
	ctx := t.Context()
	reader := driver.Request{Key: "report", ID: driver.HoldID{0x00, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff},
		Mode: driver.Shared, Owner: "web-1:4711", TTL: 30 * time.Second}
	slot := reader
	slot.ID = driver.HoldID{0xff, 0xee, 0xdd, 0xcc, 0xbb, 0xaa, 0x99, 0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11, 0x00}
	slot.Mode, slot.Slots, slot.Slot = driver.Slot, 8, 3
	// So that the first of them does not look for a fence.
	release(t, s, granted(t, s, reader))
	var hold, second driver.Hold
	acquire := func(q driver.Request, want driver.Status, into *driver.Hold) bool {
		results, err := s.Acquire(ctx, []driver.Request{q})
		if err != nil || results[0].Status != want {
			return false
		}
		if into != nil {
			*into = holdOf(q, results[0])
		}
		return true
	}
	step("shared", func() bool { return acquire(reader, driver.Granted, &hold) })
	step("slot", func() bool { return acquire(slot, driver.Granted, &second) })
	step("inspect a phase", func() bool { _, err := s.Inspect(ctx, []string{"report"}); return err == nil })
	step("renew shared", func() bool {
		r, err := s.Renew(ctx, []driver.Hold{hold})
		return err == nil && r[0].Status == driver.Alive
	})
	step("release shared", func() bool {
		r, err := s.Release(ctx, []driver.Hold{hold})
		return err == nil && r[0].Status == driver.Released
	})
	release(t, s, second)
	step("guarded shared", func() bool {
		q := reader
		q.Guarded = true
		return acquire(q, driver.Granted, &hold)
	})
	step("force a phase", func() bool { _, err := s.ForceRelease(ctx, "report"); return err == nil })
}
