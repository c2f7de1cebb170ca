// Package testserver is how the tests of this module reach real servers. It needs the standard library only: the
// servers themselves come from the command testenv, which `make test` runs around the tests and which names them in
// environment variables.
//
// Without those variables, as in a plain `go test ./...`, a test that asks for a server is skipped with the reason.
// Where ROWLOCK_TEST_MUST_RUN is set, as `make test` and CI do, it fails instead: nothing hides.
package testserver

import (
	"os"
	"testing"
)

// The kinds of servers. DSN knows the first three, Start knows all.
const (
	MySQL           = "mysql"
	MariaDB         = "mariadb"
	Mongo           = "mongo"            // a replica set of one node
	MongoStandalone = "mongo-standalone" // no replica set
	Mongo3          = "mongo3"           // a replica set of three nodes

	// Clusters: they have the methods of cluster.go too.
	MySQLSemiSync  = "mysql-semisync"  // a primary, two replicas, of which one acknowledges each commit
	MySQLAsync     = "mysql-async"     // a primary and a replica that nobody waits for
	MySQLGroup3    = "mysql-gr3"       // Group Replication, one of three writable
	MariaDBGalera3 = "mariadb-galera3" // Galera, all three writable
)

var variables = map[string]string{
	MySQL:   "ROWLOCK_TEST_MYSQL_DSN",
	MariaDB: "ROWLOCK_TEST_MARIADB_DSN",
	Mongo:   "ROWLOCK_TEST_MONGO_URI",
}

// DSN returns the address of the server of that kind which all tests share: never pause or kill it. Use a database,
// a table or a key prefix of the test's own. It skips or fails the test if there is none.
func DSN(t testing.TB, kind string) string {
	t.Helper()
	name, known := variables[kind]
	if !known {
		t.Fatalf("testserver: no shared server of kind %q", kind)
	}
	dsn := os.Getenv(name)
	if dsn == "" {
		missing(t, name+" is not set: run `make test`")
	}
	return dsn
}

// missing ends a test for want of a server.
func missing(t testing.TB, why string) {
	t.Helper()
	if os.Getenv("ROWLOCK_TEST_MUST_RUN") != "" {
		t.Fatal(why)
	}
	t.Skip(why)
}
