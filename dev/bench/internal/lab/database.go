package lab

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/rowlock/rowlock/dev/bench/internal/side"
)

// openDatabase opens a database server. absent says why there is none of that name
// in this environment.
func openDatabase(ctx context.Context, name string) (s *Server, absent string, err error) {
	if name == Mongo3 {
		return openMongo3(ctx)
	}
	address := os.Getenv(Variables[name])
	if address == "" {
		return nil, Variables[name] + " is not set", nil
	}
	s = &Server{Name: name}
	if name == Mongo {
		err = s.setUpMongo(ctx, address)
	} else {
		err = s.setUpSQL(ctx, address)
	}
	return s, "", err
}

// openMongo3 starts a replica set of three.
func openMongo3(ctx context.Context) (*Server, string, error) {
	program := os.Getenv("ROWLOCK_TEST_SERVER")
	if program == "" {
		return nil, "ROWLOCK_TEST_SERVER names no testenv command to start it with", nil
	}
	address, stop, err := serve(ctx, program, "mongo3")
	if err != nil {
		return nil, firstLine(err), nil
	}
	s := &Server{Name: Mongo3, closes: []func() error{stop}}
	if err := s.setUpMongo(ctx, address); err != nil {
		_ = s.Close()
		return nil, "", err
	}
	s.closes = s.closes[:1] // the database goes with the server
	return s, "", nil
}

// setUpSQL makes the run's database with all tables.
func (s *Server) setUpSQL(ctx context.Context, address string) error {
	config, err := mysql.ParseDSN(address)
	if err != nil {
		return err
	}
	admin, err := side.OpenSQL(address, 1)
	if err != nil {
		return err
	}
	var version, flush, binlog, sync string
	err = admin.QueryRowContext(ctx, "SELECT VERSION(), @@innodb_flush_log_at_trx_commit, @@log_bin, @@sync_binlog, @@max_connections").
		Scan(&version, &flush, &binlog, &sync, &s.MaxConns)
	if err != nil {
		_ = admin.Close()
		return err
	}
	product := "MySQL "
	if strings.Contains(version, "MariaDB") {
		product = ""
	}
	s.sql, s.Version = true, product+version
	s.Durability = fmt.Sprintf("innodb_flush_log_at_trx_commit=%s, log_bin=%s, sync_binlog=%s", flush, binlog, sync)
	config.DBName = space()
	if _, err := admin.ExecContext(ctx, "CREATE DATABASE "+config.DBName); err != nil {
		_ = admin.Close()
		return err
	}
	s.closes = append(s.closes, admin.Close, func() error {
		_, err := admin.Exec("DROP DATABASE " + config.DBName)
		return err
	})
	s.Kinds = []string{side.Floor, side.FloorInsert, side.Version, side.Unique, side.ForUpdate, side.VersionProbes, side.UniqueProbes, side.FairVersion, side.SingleVersion, side.SingleUnique, side.Poller, side.GetLock, side.SelectOne, side.Ping}
	s.spec = side.Spec{Address: config.FormatDSN(), Prefix: "rowlock"}
	db, err := side.OpenSQL(s.spec.Address, 1)
	if err != nil {
		return err
	}
	defer db.Close()
	if err := side.PrepareSQL(ctx, db); err != nil {
		return err
	}
	return side.Migrate(ctx, s.Spec(side.Version, 1))
}

// setUpMongo makes the run's database with all collections.
func (s *Server) setUpMongo(ctx context.Context, address string) error {
	client, err := mongo.Connect(options.Client().ApplyURI(address).SetServerSelectionTimeout(10 * time.Second))
	if err != nil {
		return err
	}
	defer client.Disconnect(context.WithoutCancel(ctx))
	var build struct{ Version string }
	var hello struct{ Hosts []string }
	admin := client.Database("admin")
	if err := admin.RunCommand(ctx, bson.D{{Key: "buildInfo", Value: 1}}).Decode(&build); err != nil {
		return err
	}
	if err := admin.RunCommand(ctx, bson.D{{Key: "hello", Value: 1}}).Decode(&hello); err != nil {
		return err
	}
	if len(hello.Hosts) > 1 {
		s.Name = Mongo3
	}
	s.Version = fmt.Sprintf("MongoDB %s, replica set of %d", build.Version, len(hello.Hosts))
	s.Durability = fmt.Sprintf("write concern majority with journal, %d of %d", len(hello.Hosts)/2+1, len(hello.Hosts))
	s.Kinds = []string{side.Floor, side.Mongo, side.FairMongo, side.Guarded, side.SingleMongo, side.Poller, side.Ping}
	s.spec = side.Spec{Address: address, Space: space(), Prefix: "rowlock"}
	s.closes = append(s.closes, func() error {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		return side.DropMongo(ctx, s.Spec(side.Mongo, 1))
	})
	if err := side.PrepareMongo(ctx, s.Spec(side.Mongo, 1)); err != nil {
		return err
	}
	return side.Migrate(ctx, s.Spec(side.Mongo, 1))
}
