package mysqllock

import (
	"fmt"

	"github.com/go-sql-driver/mysql"
)

// String says where the locks are, for people: database, server, strategy, and the prefix of the tables if it is not the
// default one; no password. Of a Store that New made database and server are not known.
func (s *Store) String() string {
	text := "strategy " + s.options.Strategy.String()
	if s.options.Prefix != defaultPrefix {
		text += ", tables " + s.options.Prefix + "_…"
	}
	if s.address == "" {
		return text
	}
	return fmt.Sprintf("%s (%s)", s.address, text)
}

// addressOf names the database of a pool that Open makes.
func addressOf(c *mysql.Config) string { return c.DBName + " @ " + c.Addr }
