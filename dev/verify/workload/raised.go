package workload

import (
	"context"
	"errors"
	"strconv"

	"github.com/go-sql-driver/mysql"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/rowlock/rowlock"
)

// What a database says of a transaction that it ended because of another one.
var (
	sqlConflicts = map[uint16]bool{
		1213: true, // deadlock
		1205: true, // lock wait time-out
		1062: true, // duplicate key
		1020: true, // the row has changed since the snapshot (MariaDB)
		3572: true, // NOWAIT
	}
	mongoConflicts = map[int]string{112: "WriteConflict", 11000: "DuplicateKey", 24: "LockTimeout"}
)

// raised is the conflict of the database in an error of the library, if it was not for
// its caller to see: the error does not say what it means for him. Empty: none.
func raised(err error) string {
	for _, known := range []error{
		nil, rowlock.ErrConflict, rowlock.ErrHeld, rowlock.ErrLost, rowlock.ErrAlreadyRan, rowlock.ErrUnknownOutcome, errCommit,
		context.DeadlineExceeded, context.Canceled, // he had no patience, and this was the last that was known
	} {
		if errors.Is(err, known) {
			return ""
		}
	}
	var sql *mysql.MySQLError
	if errors.As(err, &sql) && sqlConflicts[sql.Number] {
		return strconv.Itoa(int(sql.Number))
	}
	var server mongo.ServerError
	if errors.As(err, &server) {
		for code, name := range mongoConflicts {
			if server.HasErrorCode(code) {
				return name
			}
		}
	}
	return ""
}
