package testenv_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"

	"github.com/rowlock/rowlock/dev/testenv"
	"github.com/rowlock/rowlock/internal/testserver"
)

func troubled(t *testing.T, kind testenv.Kind) *testenv.Server {
	t.Helper()
	s, err := testenv.StartTroubled(t.Context(), kind)
	skipUnavailable(t, err)
	must(t, "start", err)
	t.Cleanup(func() { must(t, "close", s.Close()) })
	if !s.Troubled() {
		t.Error("not prepared for trouble")
	}
	return s
}

// skipUnavailable skips where this machine cannot have such a server, unless everything must run.
func skipUnavailable(t *testing.T, err error) {
	t.Helper()
	if errors.Is(err, testenv.ErrUnavailable) && os.Getenv("ROWLOCK_TEST_MUST_RUN") == "" {
		t.Skip(err)
	}
}

// clockOf asks the server for its time.
func clockOf(t *testing.T, s *testenv.Server) func() time.Time {
	if s.Kind() == testenv.MySQL || s.Kind() == testenv.MariaDB {
		db := sqlPool(t, s.DSN())
		return func() time.Time {
			var text string
			must(t, "time", db.QueryRow("SELECT UTC_TIMESTAMP(6)").Scan(&text))
			at, err := time.Parse("2006-01-02 15:04:05.000000", text)
			must(t, "time", err)
			return at
		}
	}
	m, err := mongo.Connect(options.Client().ApplyURI(s.DSN()))
	must(t, "connect", err)
	t.Cleanup(func() { _ = m.Disconnect(context.Background()) })
	return func() time.Time {
		var hello struct {
			LocalTime time.Time `bson:"localTime"`
		}
		must(t, "time", m.Database("admin").RunCommand(t.Context(), bson.D{{Key: "hello", Value: 1}}).Decode(&hello))
		return hello.LocalTime
	}
}

// TestClock: the server's clock is set, ahead and behind, also over a restart, and is the machine's again; waits last as
// long as they should meanwhile.
func TestClock(t *testing.T) {
	testserver.Long(t)
	for _, kind := range []testenv.Kind{testenv.MySQL, testenv.MariaDB, testenv.Mongo} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			s := troubled(t, kind)
			clock, c := clockOf(t, s), connect(t, s)
			off := func() time.Duration { return time.Until(clock()).Round(5 * time.Second) }
			for i, ahead := range []time.Duration{time.Hour, -time.Hour, 0} {
				must(t, "set the clock", s.SetClock(ahead))
				time.Sleep(50 * time.Millisecond) // mongod looks at its clock now and then
				if d := off(); d != ahead {
					t.Errorf("set to %v: it is %v ahead", ahead, d)
				}
				must(t, "insert", c.insert(fmt.Sprint(i)))
				if ahead != 0 {
					waits(t, s)
				}
			}
			must(t, "set the clock", s.SetClock(time.Minute))
			must(t, "restart", s.Restart(t.Context()))
			if d := off(); d != time.Minute {
				t.Errorf("after a restart: it is %v ahead", d)
			}
		})
	}
}

// waits: a statement that waits for a row or for a table gives up after a second.
func waits(t *testing.T, s *testenv.Server) {
	t.Helper()
	if s.Kind() == testenv.Mongo {
		return
	}
	db := sqlPool(t, s.DSN())
	ctx := t.Context()
	tx, err := db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelSerializable})
	must(t, "begin", err)
	defer func() { _ = tx.Rollback() }()
	var n int
	must(t, "lock", tx.QueryRow("SELECT COUNT(*) FROM held FOR UPDATE").Scan(&n))
	other, err := db.Conn(ctx)
	must(t, "connect", err)
	defer other.Close()
	_, err = other.ExecContext(ctx, "SET SESSION innodb_lock_wait_timeout=1, lock_wait_timeout=1")
	must(t, "set", err)
	for _, text := range []string{"INSERT INTO held VALUES ('x')", "ALTER TABLE held COMMENT 'x'", "DO SLEEP(1)"} {
		begin := time.Now()
		_, err := other.ExecContext(ctx, text)
		if d := time.Since(begin); d < 900*time.Millisecond || d > 5*time.Second || err == nil && text != "DO SLEEP(1)" {
			t.Errorf("%s ended after %v: %v", text, d, err)
		}
	}
}

// TestNoTrouble: a server that is not prepared says so.
func TestNoTrouble(t *testing.T) {
	s, err := testenv.Start(t.Context(), testenv.Mongo)
	must(t, "start", err)
	defer s.Close()
	if s.Troubled() || s.SetClock(time.Hour) == nil || s.FillDisk(true) == nil {
		t.Error("it can be in trouble")
	}
}

// TestDisk: while the disk is full nothing is committed; when there is room the server works again, mongod after a start.
func TestDisk(t *testing.T) {
	testserver.Long(t)
	for _, kind := range []testenv.Kind{testenv.MySQL, testenv.MariaDB, testenv.Mongo} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			s := troubled(t, kind)
			c := connect(t, s)
			must(t, "insert", c.insert("before"))
			must(t, "fill the disk", s.FillDisk(true))
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if err := c.do(ctx, "full"); err == nil {
				t.Error("an insert took effect while the disk was full")
			}
			must(t, "empty the disk", s.FillDisk(false))
			if kind == testenv.Mongo {
				must(t, "restart", s.Restart(t.Context()))
			}
			must(t, "insert", c.insertUntil("after", 10*time.Second))
		})
	}
}

// TestCutOff: a primary that is cut off from the others answers clients and is replaced; later all are one set again.
func TestCutOff(t *testing.T) {
	testserver.Long(t)
	t.Parallel()
	s := troubled(t, testenv.Mongo3)
	u, err := url.Parse(s.DSN())
	must(t, "parse the DSN", err)
	type hello struct {
		Writable bool `bson:"isWritablePrimary"`
		Hosts    []string
	}
	var ask []func() (hello, error)
	for _, host := range strings.Split(u.Host, ",") {
		c, err := mongo.Connect(options.Client().ApplyURI("mongodb://" + host + "/?directConnection=true"))
		must(t, "connect", err)
		t.Cleanup(func() { _ = c.Disconnect(context.Background()) })
		ask = append(ask, func() (h hello, err error) {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			return h, c.Database("admin").RunCommand(ctx, bson.D{{Key: "hello", Value: 1}}).Decode(&h)
		})
	}
	// primary is who takes writes, of those that are asked.
	primary := func(not int) int {
		for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
			for i := range ask {
				if h, err := ask[i](); i != not && err == nil && h.Writable {
					return i
				}
			}
		}
		t.Fatalf("no primary but %d", not)
		return 0
	}
	old := primary(-1)
	must(t, "cut off", s.CutOff(true, old))
	now := primary(old)
	if _, err := ask[old](); err != nil {
		t.Errorf("the member that was cut off does not answer: %v", err)
	}
	t.Logf("member %d was primary, then member %d", old, now)
	// It steps down, for want of a majority, and learns nothing of the others.
	for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		if h, err := ask[old](); err == nil && !h.Writable {
			break
		}
		if time.Now().After(end) {
			t.Fatal("it is primary without the others for a minute")
		}
	}
	must(t, "undo", s.CutOff(false, old))
	c, err := mongo.Connect(options.Client().ApplyURI(s.DSN()).SetWriteConcern(&writeconcern.WriteConcern{W: 3}))
	must(t, "connect", err)
	t.Cleanup(func() { _ = c.Disconnect(context.Background()) })
	for end := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		_, err = c.Database("test").Collection("cut").InsertOne(ctx, bson.M{})
		cancel()
		if err == nil {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("no write reaches all three: %v", err)
		}
	}
	if s.CutOff(true, 3) == nil || s.CutOff(true, -1) == nil {
		t.Error("there is a fourth member")
	}
}
