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
	"slices"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	mysqllock "github.com/rowlock/rowlock/mysql"
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

// Backend is the server that the flag -backend names. It must be one of a choice
// of two or more, and the environment must say where it is.
func Backend(name string, choice ...Server) (Server, error) {
	s := Server(name)
	if slices.Contains(choice, s) {
		return s, Need(s)
	}
	last := len(choice) - 1
	others := string(choice[0])
	for _, c := range choice[1:last] {
		others += ", " + string(c)
	}
	return "", fmt.Errorf("-backend %q: use %s or %s", name, others, choice[last])
}

// OpenStore is mysqllock.Open on a MySQL or MariaDB server.
func (s Server) OpenStore(o mysqllock.Options) (*mysqllock.Store, error) {
	if err := Need(s); err != nil {
		return nil, err
	}
	return mysqllock.Open(s.address(), o)
}

// SQL opens a pool on a MySQL or MariaDB server. It does no I/O.
func (s Server) SQL(connections int) (*sql.DB, error) {
	if err := Need(s); err != nil {
		return nil, err
	}
	config, err := mysql.ParseDSN(s.address())
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
// or the database. What it cannot remove it says on standard error, for the
// program.
func (s Server) Drop(program, space string) {
	if err := s.drop(space); err != nil {
		fmt.Fprintf(os.Stderr, "%s: remove %s* from %s: %v\n", program, space, s.Name(), err)
	}
}

func (s Server) drop(space string) error {
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
