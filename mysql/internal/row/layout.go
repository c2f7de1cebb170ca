package row

// Layout is what a strategy needs of a table.
type Layout struct {
	Table   string // quoted
	Columns []string
	Guard   []string // the columns of its index named guard; nil: none is needed
}

// Layout is what the strategy needs of its table.
func (l *Table) Layout() []Layout {
	return []Layout{{
		Table:   l.Name,
		Columns: []string{"name", "hold", "owner", "token", "acquired_at", "expires_at", "released_at", "wanted", "phase", "gate", "gate_until", "gate_after"},
		Guard:   l.GuardColumns,
	}}
}
