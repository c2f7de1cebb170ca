package misuse

import "testing"

func TestRepeats(t *testing.T) {
	for message, want := range map[string]string{
		`acquire "k": rowlock: invalid argument: the key is empty`:                     "",
		`acquire "k": rowlock: closed: rowlock: the store was closed`:                  "rowlock:",
		"rowlock: the tables do not fit: run Migrate: table t is missing: run Migrate": "run Migrate",
		"mysql: connect: dial tcp 127.0.0.1:3306: connect: connection refused":         "",
	} {
		if got := Repeats(message); got != want {
			t.Errorf("Repeats(%q) = %q, want %q", message, got, want)
		}
	}
}
