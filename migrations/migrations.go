// Package migrations holds the table definitions of rowlock, for programs that
// run their schema changes with a tool of their own. The stores' Migrate methods
// apply the same files.
//
// The SQL files, of which there is one so far, are plain statements that may be run
// again. Their first line makes them usable by goose; to golang-migrate it is a comment. There are no
// down files: dropping a lock table while a pod still uses it frees every lock.
package migrations

import "embed"

// MySQL holds mysql/000N_name.up.sql, for MySQL and MariaDB. The tables carry the
// default prefix, rowlock; mysqllock's Migrate replaces it.
//
//go:embed mysql/*.up.sql
var MySQL embed.FS
