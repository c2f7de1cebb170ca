package testenv_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"

	"github.com/rowlock/rowlock/dev/testenv"
)

// client is the least that a lock needs of a server.
type client struct {
	t    *testing.T
	do   func(ctx context.Context, key string) error // inserts a key once; a read for the empty key
	dupe func(error) bool
}

func connect(t *testing.T, s *testenv.Server) client {
	if s.Kind() == testenv.MySQL || s.Kind() == testenv.MariaDB {
		return connectSQL(t, s)
	}
	return connectMongo(t, s)
}

func (c client) insert(key string) error {
	ctx, cancel := context.WithTimeout(c.t.Context(), 20*time.Second)
	defer cancel()
	return c.do(ctx, key)
}

func (c client) ping(d time.Duration) error {
	ctx, cancel := context.WithTimeout(c.t.Context(), d)
	defer cancel()
	return c.do(ctx, "")
}

// insertUntil tries again while the server fails over.
func (c client) insertUntil(key string, d time.Duration) error {
	for end := time.Now().Add(d); ; {
		ctx, cancel := context.WithTimeout(c.t.Context(), time.Second)
		err := c.do(ctx, key)
		cancel()
		if err == nil || c.dupe(err) { // a duplicate is our own try whose answer was lost
			return nil
		}
		if time.Now().After(end) {
			return err
		}
		time.Sleep(10 * time.Millisecond) // where nobody can be reached each try fails at once
	}
}

func sqlPool(t *testing.T, dsn string) *sql.DB {
	t.Helper()
	cfg, err := mysql.ParseDSN(dsn)
	must(t, "dsn", err)
	cfg.Logger = &mysql.NopLogger{}
	cfg.Timeout = time.Second
	connector, err := mysql.NewConnector(cfg)
	must(t, "connector", err)
	db := sql.OpenDB(connector)
	t.Cleanup(func() { db.Close() })
	return db
}

func connectSQL(t *testing.T, s *testenv.Server) client {
	db := sqlPool(t, s.DSN())
	_, err := db.Exec("CREATE TABLE held (k VARBINARY(255) PRIMARY KEY)")
	must(t, "create table", err)
	do := func(ctx context.Context, key string) error {
		if key == "" {
			return db.QueryRowContext(ctx, "SELECT 1").Scan(new(int))
		}
		_, err := db.ExecContext(ctx, "INSERT INTO held VALUES (?)", key)
		return err
	}
	dupe := func(err error) bool {
		var e *mysql.MySQLError
		return errors.As(err, &e) && e.Number == 1062
	}
	return client{t, do, dupe}
}

func connectMongo(t *testing.T, s *testenv.Server) client {
	// The driver's defaults take half a minute to leave a primary that does not answer.
	m, err := mongo.Connect(options.Client().ApplyURI(s.DSN()).
		SetConnectTimeout(time.Second).SetHeartbeatInterval(500 * time.Millisecond).
		SetWriteConcern(writeconcern.Journaled())) // a mongod alone answers before, by default
	must(t, "connect", err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		defer cancel()
		_ = m.Disconnect(ctx)
	})
	held := m.Database("test").Collection("held")
	do := func(ctx context.Context, key string) error {
		if key == "" {
			_, err := held.CountDocuments(ctx, bson.D{})
			return err
		}
		_, err := held.InsertOne(ctx, bson.D{{Key: "_id", Value: key}})
		return err
	}
	return client{t, do, mongo.IsDuplicateKeyError}
}
