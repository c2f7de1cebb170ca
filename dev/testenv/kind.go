package testenv

import (
	"fmt"
	"slices"
	"strings"
)

// Kind says which server, and how it is set up.
type Kind string

const (
	MySQL           Kind = "mysql"
	MariaDB         Kind = "mariadb"
	Mongo           Kind = "mongo"            // a replica set of one node
	MongoStandalone Kind = "mongo-standalone" // no replica set: no transactions, no change streams
	Mongo3          Kind = "mongo3"           // a replica set of three nodes; fails over in about two seconds

	// Clusters, from server programs of this machine only: see [Server.Switch] and its neighbours.
	MySQLSemiSync  Kind = "mysql-semisync"  // a primary and two replicas, of which one acknowledges each commit
	MySQLAsync     Kind = "mysql-async"     // a primary and a replica that nobody waits for: a failover forgets commits
	MySQLGroup3    Kind = "mysql-gr3"       // Group Replication of three, one of them writable
	MariaDBGalera3 Kind = "mariadb-galera3" // Galera of three, all of them writable
)

// Kinds lists every kind.
var Kinds = []Kind{MySQL, MariaDB, Mongo, MongoStandalone, Mongo3, MySQLSemiSync, MySQLAsync, MySQLGroup3, MariaDBGalera3}

// ParseKind returns the kind of that name, or an error that names the known ones.
func ParseKind(name string) (Kind, error) {
	if k := Kind(name); slices.Contains(Kinds, k) {
		return k, nil
	}
	known := make([]string, len(Kinds))
	for i, k := range Kinds {
		known[i] = string(k)
	}
	return "", fmt.Errorf("testenv: no server kind %q: one of %s", name, strings.Join(known, ", "))
}

// Variable is the environment variable that names a running server of this kind; empty if there is none.
func (k Kind) Variable() string {
	switch k {
	case MySQL:
		return "ROWLOCK_TEST_MYSQL_DSN"
	case MariaDB:
		return "ROWLOCK_TEST_MARIADB_DSN"
	case Mongo:
		return "ROWLOCK_TEST_MONGO_URI"
	}
	return ""
}

// product is the server program's name: the folder in the cache, the name of the image variable.
func (k Kind) product() string {
	switch k {
	case MongoStandalone, Mongo3:
		return string(Mongo)
	case MySQLSemiSync, MySQLAsync, MySQLGroup3:
		return string(MySQL)
	case MariaDBGalera3:
		return "galera" // MariaDB with Galera's library beside it
	}
	return string(k)
}

// isMongo tells the two protocols apart.
func (k Kind) isMongo() bool { return k.product() == string(Mongo) }

// isMariaDB tells the two servers apart that speak MySQL's protocol.
func (k Kind) isMariaDB() bool { return k == MariaDB || k == MariaDBGalera3 }

// Clustered reports whether several servers of this kind replicate to each other behind an address that follows the one
// that takes writes: then Switch, Promote and Rejoin work.
func (k Kind) Clustered() bool {
	switch k {
	case MySQLSemiSync, MySQLAsync, MySQLGroup3, MariaDBGalera3:
		return true
	}
	return false
}

// members is the number of server processes.
func (k Kind) members() int {
	switch k {
	case Mongo3, MySQLSemiSync, MySQLGroup3, MariaDBGalera3:
		return 3
	case MySQLAsync:
		return 2
	}
	return 1
}
