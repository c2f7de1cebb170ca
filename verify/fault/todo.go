package fault

func settingFaults() []Fault      { return nil }
func clockFaults() []Fault        { return nil }
func diskFaults() []Fault         { return nil }
func memberFaults() []Fault       { return nil }
func foreignFaults() []Fault      { return nil }
func foreignMongoFaults() []Fault { return nil }
func reaperFaults() []Fault       { return nil }
