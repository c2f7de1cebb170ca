// Package servers finds the database servers that the examples run on: they are
// named by environment variables, which `make demo` sets.
package servers

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// Server is one of the servers.
type Server string

// The servers, by their names in flags.
const (
	MySQL   Server = "mysql"
	MariaDB Server = "mariadb"
	MongoDB Server = "mongo"
)

var known = map[Server]struct{ name, variable string }{
	MySQL:   {"MySQL", "ROWLOCK_TEST_MYSQL_DSN"},
	MariaDB: {"MariaDB", "ROWLOCK_TEST_MARIADB_DSN"},
	MongoDB: {"MongoDB", "ROWLOCK_TEST_MONGO_URI"},
}

// Name is the server's name for people.
func (s Server) Name() string { return known[s].name }

// address is what the environment says.
func (s Server) address() string { return os.Getenv(known[s].variable) }

// Need is an error that names the variables of those servers which are not set.
func Need(list ...Server) error {
	var missing []string
	for _, s := range list {
		if s.address() == "" {
			missing = append(missing, known[s].variable)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return fmt.Errorf("%s: not set, so there is no server to run on: run `make demo` in the repository's root, which starts servers and sets ROWLOCK_TEST_MYSQL_DSN, ROWLOCK_TEST_MARIADB_DSN and ROWLOCK_TEST_MONGO_URI, or set them to servers of your own",
		strings.Join(missing, ", "))
}

// DSN is the address of a MySQL or MariaDB server.
func (s Server) DSN() (string, error) { return s.address(), Need(s) }

// SQL opens a pool on a MySQL or MariaDB server. It does no I/O.
func (s Server) SQL(connections int) (*sql.DB, error) {
	dsn, err := s.DSN()
	if err != nil {
		return nil, err
	}
	config, err := mysql.ParseDSN(dsn)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", known[s].variable, err)
	}
	config.InterpolateParams = true // one trip a statement
	connector, err := mysql.NewConnector(config)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", known[s].variable, err)
	}
	db := sql.OpenDB(connector)
	db.SetMaxOpenConns(connections)
	db.SetMaxIdleConns(connections)
	return db, nil
}

// Mongo makes a client of the MongoDB server. It does no I/O.
func (s Server) Mongo(connections int) (*mongo.Client, error) {
	if err := Need(s); err != nil {
		return nil, err
	}
	client, err := mongo.Connect(options.Client().ApplyURI(s.address()).SetMaxPoolSize(uint64(connections)))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", known[s].variable, err)
	}
	return client, nil
}

// NewSpace makes a name for the tables, or the MongoDB database, of one run: it
// begins with prefix and is like no other, so that two runs do not meet.
func NewSpace(prefix string) string { return prefix + "_" + strings.ToLower(rand.Text()[:8]) }

// Drop removes everything on the server whose name begins with a space: tables,
// or the database.
func (s Server) Drop(space string) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("remove %s* from %s: %w", space, s.Name(), err)
		}
	}()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if s == MongoDB {
		client, err := s.Mongo(1)
		if err != nil {
			return err
		}
		return errors.Join(client.Database(space).Drop(ctx), client.Disconnect(ctx))
	}
	db, err := s.SQL(1)
	if err != nil {
		return err
	}
	defer db.Close()
	var tables sql.NullString
	err = db.QueryRowContext(ctx, "SELECT GROUP_CONCAT(CONCAT('`', table_name, '`')) FROM information_schema.tables WHERE table_schema = DATABASE() AND LEFT(table_name, ?) = ?",
		len(space), space).Scan(&tables)
	if err != nil || tables.String == "" {
		return err
	}
	_, err = db.ExecContext(ctx, "DROP TABLE "+tables.String)
	return err
}
