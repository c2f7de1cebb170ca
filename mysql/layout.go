package mysqllock

// layout is what a strategy needs of a table.
type layout struct {
	table   string // quoted
	columns []string
	guard   []string // the columns of its index named guard; nil: none is needed
}

func (l *leases) layout() []layout {
	return []layout{{
		table:   l.table,
		columns: []string{"name", "hold", "owner", "token", "acquired_at", "expires_at", "released_at", "wanted", "phase", "gate", "gate_until", "gate_after"},
		guard:   l.guard,
	}}
}
