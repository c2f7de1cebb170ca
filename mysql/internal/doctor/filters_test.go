package doctor

import "testing"

// TestFilter: the rules leave a table out in the order of the server's.
func TestFilter(t *testing.T) {
	for name, c := range map[string]struct {
		rules map[string][]string
		want  string
	}{
		"none":                     {nil, ""},
		"another":                  {map[string][]string{"r_ignore_db": {"b"}, "r_ignore_table": {"a.other"}, "r_wild_ignore_table": {"b.%"}}, ""},
		"only this":                {map[string][]string{"r_do_db": {"b", "a"}}, ""},
		"only others":              {map[string][]string{"r_do_db": {"b"}}, "r_do_db"},
		"ignored":                  {map[string][]string{"r_ignore_db": {"a"}}, "r_ignore_db"},
		"do goes before ignore":    {map[string][]string{"r_do_db": {"a"}, "r_ignore_db": {"a"}}, ""},
		"table":                    {map[string][]string{"r_ignore_table": {"a.locks"}}, "r_ignore_table"},
		"only another table":       {map[string][]string{"r_do_table": {"a.other"}}, "r_do_table"},
		"this table":               {map[string][]string{"r_do_table": {"a.locks"}, "r_wild_ignore_table": {"a.%"}}, ""},
		"like":                     {map[string][]string{"r_wild_ignore_table": {"%.lo_k%"}}, "r_wild_ignore_table"},
		"only like another":        {map[string][]string{"r_wild_do_table": {`a.x\_%`}}, "r_wild_do_table"},
		"a sign that means itself": {map[string][]string{"r_wild_ignore_table": {`a.l\_cks`}}, ""},
	} {
		if got := filter(c.rules, "r", "a", "locks"); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
