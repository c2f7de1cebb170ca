package conn

import (
	"slices"
	"strings"
)

// A function of InTx and Once has its connection for itself, and may leave anything on it: settings, another default
// database, temporary tables. (A transaction ends LOCK TABLES when it begins.) So the first statement of the next
// transaction there, its guard, looks at the session too.

// StillText is an expression for Still. tables are those that the transaction reads: MySQL refuses to read one twice in
// a statement if it is temporary (1137); MariaDB counts those that were made.
func (c *Conn) StillText(tables ...string) string {
	twice := "0"
	for _, t := range tables {
		twice += "+(SELECT COUNT(*) FROM " + t + " AS t WHERE 1=0)"
	}
	return "CONCAT_WS('/'," + placeText + " /*!80000 ," + twice + " */ /*M!100600 ,(" + madeTemporary + ") */," + lookText(c.settings()) + ")"
}

// Still reports whether the session is as it was when the connection was opened.
func (c *Conn) Still(answer string) bool {
	parts := strings.SplitN(answer, "/", 3)
	return len(parts) == 3 && parts[0] == c.place && (parts[1] == "0" || parts[1] == c.temporary) && wrongIn(c.settings(), parts[2]) == ""
}

// settings are those that the connection was brought to.
func (c *Conn) settings() []setting {
	of := slices.Clone(c.db.without(settingsOf(c.pool.Kind, c.Silence)))
	if c.Repeatable {
		for i := range of {
			if strings.HasSuffix(of[i].name, "_isolation") {
				of[i].is = "REPEATABLE-READ"
			}
		}
	}
	return of
}

// OfSession reports whether a statement met something that the program has left in the session.
func OfSession(err error) bool { return ofSession[Number(err)] }
