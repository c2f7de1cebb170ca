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
)

// Kinds lists every kind.
var Kinds = []Kind{MySQL, MariaDB, Mongo, MongoStandalone, Mongo3}

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
	if k == MongoStandalone || k == Mongo3 {
		return string(Mongo)
	}
	return string(k)
}

// isMongo tells the two protocols apart.
func (k Kind) isMongo() bool { return k.product() == string(Mongo) }

// members is the number of server processes.
func (k Kind) members() int {
	if k == Mongo3 {
		return 3
	}
	return 1
}
