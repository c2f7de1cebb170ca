package sqltest

import (
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"github.com/rowlock/rowlock/mysql/internal/conn"
)

// FormsAreTheSame fails the test where the prepared form of a statement, with its values put back, is another text than
// its literal form.
func FormsAreTheSame(t *testing.T, name string, s conn.Statement) {
	t.Helper()
	m := conn.NewMarks()
	s(m)
	text := m.String()
	for _, v := range m.Values {
		switch v := v.Value.(type) {
		case int64, uint64:
			text = strings.Replace(text, "?", fmt.Sprint(v), 1)
		case string:
			if _, err := hex.DecodeString(v); err != nil {
				t.Fatal(err)
			}
			text = strings.Replace(text, "UNHEX(?)", "x'"+v+"'", 1)
		}
	}
	if want := s.Literal(); text != want || strings.Contains(text, "?") {
		t.Errorf("%s:\n%s\nwant\n%s", name, text, want)
	}
}
