package side

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/go-sql-driver/mysql"
)

// FloorTable is the table of the floors and of the poller: a primary key and
// nothing else.
const FloorTable = "floor_row"

// Keys is how many rows the floor's table has, with the names Key(0) to Key(Keys-1).
const Keys = 256

// Key is the name of the i-th key.
func Key(i int) string { return fmt.Sprintf("bench-%04d", i) }

// PrepareSQL makes the floors' table in the database that the address names.
func PrepareSQL(ctx context.Context, db *sql.DB) error {
	for _, table := range []string{FloorTable, FloorTable + "_insert"} {
		_, err := db.ExecContext(ctx, "CREATE TABLE "+table+" (name VARBINARY(255) NOT NULL PRIMARY KEY,"+
			" version BIGINT NOT NULL, until DATETIME(6) NOT NULL) ENGINE=InnoDB")
		if err != nil {
			return err
		}
	}
	for i := range Keys {
		if _, err := db.ExecContext(ctx, "INSERT INTO "+FloorTable+" VALUES (?, 1, '1970-01-02')", Key(i)); err != nil {
			return err
		}
	}
	return nil
}

// OpenSQL opens a pool that keeps as many connections as it has callers.
func OpenSQL(address string, callers int) (*sql.DB, error) {
	config, err := mysql.ParseDSN(address)
	if err != nil {
		return nil, err
	}
	config.InterpolateParams = true // one trip a statement
	config.Logger = &mysql.NopLogger{}
	connector, err := mysql.NewConnector(config)
	if err != nil {
		return nil, err
	}
	db := sql.OpenDB(connector)
	db.SetMaxIdleConns(max(callers, 2))
	return db, nil
}
