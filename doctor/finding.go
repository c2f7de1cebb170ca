package doctor

// Entry is one thing that a Doctor looks at.
type Entry struct {
	ID    string
	Title string // what is looked at
	Look  string // how, as Markdown
	Needs string // the privilege without which it is skipped; empty: none but those of the locks

	Verdicts []Verdict // at most one of a severity
}

// Verdict is what can be found, and what it means. Names in braces stand for values.
type Verdict struct {
	Severity Severity
	When     string // what was seen
	Advice   string // what it means for a lock, and what to do
	Command  string // one that mends it; empty where none does
}

// verdict is that of a severity. Of what was skipped the advice is the privilege that would show it.
func (e Entry) verdict(s Severity) Verdict {
	for _, v := range e.Verdicts {
		if v.Severity == s {
			return v
		}
	}
	if s == Skipped && e.Needs != "" {
		return Verdict{Severity: s, Advice: "To see it: " + e.Needs + "."}
	}
	return Verdict{Severity: s}
}
