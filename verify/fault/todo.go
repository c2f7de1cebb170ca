package fault

func clockFaults() []Fault { return nil }
func diskFaults() []Fault  { return nil }
