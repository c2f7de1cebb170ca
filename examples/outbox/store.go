package main

import (
	"github.com/rowlock/rowlock/examples/internal/servers"
	mysqllock "github.com/rowlock/rowlock/mysql"
)

// openStore opens the lock tables that begin with space.
func openStore(server servers.Server, strategy mysqllock.Strategy, space string) (*mysqllock.Store, error) {
	dsn, err := server.DSN()
	if err != nil {
		return nil, err
	}
	return mysqllock.Open(dsn, mysqllock.Options{Strategy: strategy, Prefix: space})
}
