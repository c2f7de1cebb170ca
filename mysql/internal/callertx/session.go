package callertx

import (
	"context"
	"database/sql"
	"fmt"
	"strings"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/mysql/internal/conn"
)

// What Guard, MarkRun and LockTx send in the caller's session means the same there whatever its
// settings are, or is refused by name: none of them is ours to change. Hence values are x'..' or
// numbers, what is read is bytes (character_set_results), each SELECT has a LIMIT (sql_select_limit),
// times are the Store's (timestamp), names are in backticks, tables have their database, and are
// named twice, which MySQL refuses of a temporary table that hides one.

// Database is the default database of a session, as bytes in UTF-8 whatever its character sets are.
var Database = "IFNULL(" + UTF8("DATABASE()") + ",x'')"

// UTF8 is an expression as bytes in UTF-8, whatever the session's character sets are.
func UTF8(expression string) string {
	return "CAST(CONVERT(" + expression + " USING utf8mb4) AS BINARY)"
}

// TablePrefix is what stands before the name of a table of the Store's database in the caller's
// session, which may have another default one. A name that is not plain ASCII is other bytes where
// the session's statements have another character set: so the session is asked, one trip more.
func TablePrefix(ctx context.Context, tx Tx, database string) (string, error) {
	prefix := quoted(database) + "."
	if isASCII(database) {
		return prefix, nil
	}
	type session struct {
		unicode bool
		at      string
	}
	found, err := conn.Collect(ctx, tx, "SELECT IF(@@character_set_client LIKE 'utf8%',x'31',x'30'),"+Database+" LIMIT 1", func(rows *sql.Rows) (s session, err error) {
		err = rows.Scan(&s.unicode, &s.at)
		return s, err
	})
	switch {
	case err != nil:
		return "", Error(err)
	case len(found) == 1 && found[0].at == database:
		return "", nil
	case len(found) == 1 && found[0].unicode:
		return prefix, nil
	}
	return "", fmt.Errorf("%w: the lock tables are in database %q, which a session whose character set is not utf8mb4 cannot name: set charset=utf8mb4 in the DSN of the transaction's pool, or begin it in that database", driver.ErrInvalid, database)
}

func isASCII(s string) bool {
	for _, b := range []byte(s) {
		if b >= 0x80 {
			return false
		}
	}
	return true
}

func quoted(name string) string { return "`" + strings.ReplaceAll(name, "`", "``") + "`" }
