package fencing

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/fencing"
	"github.com/rowlock/rowlock/internal/testserver"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func name() string { return "f_" + strings.ToLower(rand.Text()[:12]) }

// steps are writes to one row, one after the other.
var steps = []struct {
	token int64
	total int
	want  error
}{
	{1 << 60, 1, nil},
	{1 << 60, 2, nil},
	{1 << 60, 2, nil}, // nothing changes
	{1<<60 + 1, 2, nil},
	{1 << 60, 3, fencing.ErrStale},
	{1, 2, fencing.ErrStale},
	{1<<60 + 1, 4, nil},
}

func TestUpdate(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{testserver.MySQL, testserver.MariaDB} {
		for _, parameters := range []string{"", "clientFoundRows"} {
			t.Run(kind+"/"+parameters, func(t *testing.T) {
				t.Parallel()
				config, err := mysql.ParseDSN(testserver.DSN(t, kind))
				must(t, err)
				config.ClientFoundRows = parameters != ""
				db, err := sql.Open("mysql", config.FormatDSN())
				must(t, err)
				defer db.Close()
				database := name()
				for _, statement := range []string{
					"CREATE DATABASE " + database,
					"CREATE TABLE " + database + ".bills (id INT PRIMARY KEY, total INT NOT NULL, fence BIGINT NOT NULL DEFAULT 0) ENGINE=InnoDB",
					"INSERT INTO " + database + ".bills (id,total) VALUES (1,0),(2,0)",
				} {
					_, err := db.Exec(statement)
					must(t, err)
				}
				t.Cleanup(func() { _, _ = db.Exec("DROP DATABASE " + database) })
				bill := func(id, total int) fencing.Update {
					return fencing.Update{Table: database + ".bills", Set: "total = ?", Values: []any{total}, Where: "id = ? OR id = -1", Row: []any{id}}
				}
				for i, s := range steps {
					if err := bill(1, s.total).Run(t.Context(), db, s.token); !errors.Is(err, s.want) {
						t.Errorf("step %d: %v, want %v", i+1, err, s.want)
					}
				}
				var total, other int
				must(t, db.QueryRow("SELECT total FROM "+database+".bills WHERE id=1").Scan(&total))
				must(t, db.QueryRow("SELECT total+fence FROM "+database+".bills WHERE id=2").Scan(&other))
				if total != 4 || other != 0 {
					t.Errorf("totals %d and %d", total, other)
				}
				if err := bill(3, 1).Run(t.Context(), db, 1); !errors.Is(err, sql.ErrNoRows) {
					t.Errorf("no such row: %v", err)
				}
				if err := bill(1, 1).Run(t.Context(), db, 0); !errors.Is(err, rowlock.ErrInvalid) {
					t.Errorf("token 0: %v", err)
				}

				// In a transaction whose snapshot is older than the newer holder's write.
				tx, err := db.Begin()
				must(t, err)
				defer tx.Rollback()
				must(t, tx.QueryRow("SELECT total FROM "+database+".bills WHERE id=2").Scan(&other))
				must(t, bill(2, 9).Run(t.Context(), db, 9))
				var changed *mysql.MySQLError // MariaDB since 11.6 refuses the update itself
				if err := bill(2, 8).Run(t.Context(), tx, 8); !errors.Is(err, fencing.ErrStale) && !(errors.As(err, &changed) && changed.Number == 1020) {
					t.Errorf("an old snapshot: %v", err)
				}
			})
		}
	}
}

func TestFilter(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	client, err := mongo.Connect(options.Client().ApplyURI(testserver.DSN(t, testserver.Mongo)))
	must(t, err)
	defer client.Disconnect(ctx)
	db := client.Database(name())
	defer db.Drop(ctx)
	bills := db.Collection("bills")
	_, err = bills.InsertOne(ctx, bson.M{"_id": 1, "total": 0}) // has no token yet
	must(t, err)
	write := func(id, total int, token int64) error {
		res, err := bills.UpdateOne(ctx, bson.M{"_id": id, "fence": fencing.Filter(token)},
			bson.M{"$set": bson.M{"total": total, "fence": token}})
		if err != nil {
			return err
		}
		return fencing.Matched(res.MatchedCount, token)
	}
	for i, s := range steps {
		if err := write(1, s.total, s.token); !errors.Is(err, s.want) {
			t.Errorf("step %d: %v, want %v", i+1, err, s.want)
		}
	}
	var bill struct{ Total int }
	must(t, bills.FindOne(ctx, bson.M{"_id": 1}).Decode(&bill))
	if bill.Total != 4 {
		t.Errorf("total %d", bill.Total)
	}
	if err := write(2, 1, 1); !errors.Is(err, fencing.ErrStale) {
		t.Errorf("no such document: %v", err)
	}
}
