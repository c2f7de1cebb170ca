// Package migrations holds the table definitions of rowlock, for programs that change their schema with a tool of their own.
//
//	files, err := fs.Sub(migrations.MySQL, "mysql")
//	if err != nil { … }
//	provider, err := goose.NewProvider(goose.DialectMySQL, db, files, goose.WithTableName("goose_rowlock"))
//	if err != nil { … }
//	_, err = provider.Up(ctx)
//
// A program without such a tool calls Migrate of its store, which applies the same files. docs/guides/migrations.md of the
// repository is the guide, and examples/schema has the code for goose and golang-migrate.
//
// The SQL files, of which there is one so far, are plain statements that may be run again. Their first line makes them
// usable by goose; to golang-migrate it is a comment. There are no down files: dropping a lock table while a pod still uses
// it frees every lock.
package migrations

import "embed"

// MySQL holds mysql/000N_name.up.sql, for MySQL and MariaDB. The tables carry the
// default prefix, rowlock; mysqllock's Migrate replaces it.
//
//go:embed mysql/*.up.sql
var MySQL embed.FS
