package schema

import "strings"

// Need is a privilege, and a statement that needs it.
type Need struct{ Privilege, Statement string }

// Privileges are those that a table's statements need, but SELECT, each with a
// statement that needs it too and changes no row.
func Privileges(table string, all []string) []Need {
	columns := strings.Join(all, ",") // a generated column of somebody else's takes no value
	return []Need{
		{"INSERT", "INSERT INTO " + table + " (" + columns + ") SELECT " + columns + " FROM " + table + " WHERE 1=0"},
		{"UPDATE", "UPDATE " + table + " SET name=name WHERE 1=0"},
		{"DELETE", "DELETE FROM " + table + " WHERE 1=0"},
	}
}
