package row

// Layout is what a strategy needs of a table.
type Layout struct {
	Table   string // quoted
	Columns []string
	Guard   []string // the columns of its index named guard; nil: none is needed
	Index   string   // the name of another that the statements name; empty: none
}

// Layout is what the statements of this package need of the table.
func (l *Table) Layout() Layout {
	columns := []string{"name", "hold", "owner", "token", "acquired_at", "expires_at", "released_at"}
	if l.Lined {
		columns = append(columns, "line")
	} else {
		columns = append(columns, "wanted")
	}
	return Layout{Table: l.Name, Columns: columns, Guard: l.GuardColumns}
}
