package row

// Layout is what a strategy needs of a table.
type Layout struct {
	Table   string // quoted
	Columns []string
	Guard   []string // the columns of its index named guard; nil: none is needed
	Index   string   // the name of another that the statements name; empty: none
}

// Layout is what the strategy needs of its tables, that of the keys first.
func (l *Table) Layout() []Layout {
	tables := []Layout{{
		Table:   l.Name,
		Columns: []string{"name", "hold", "owner", "token", "acquired_at", "expires_at", "released_at", "wanted", "phase", "gate", "gate_until", "gate_after"},
		Guard:   l.GuardColumns,
	}}
	if l.Share != "" {
		tables = append(tables, Layout{
			Table:   l.Share,
			Columns: []string{"name", "slot", "hold", "owner", "token", "phase", "acquired_at", "expires_at", "released_at"},
			Guard:   []string{"token", "name", "slot"},
		})
	}
	return tables
}
