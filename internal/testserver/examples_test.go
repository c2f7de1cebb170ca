package testserver_test

import (
	"flag"
	"testing"

	"github.com/rowlock/rowlock/internal/testserver"
)

func TestExamples(t *testing.T) {
	old := flag.Lookup("test.skip").Value.String()
	defer func() { _ = flag.Set("test.skip", old) }()
	for _, c := range []struct {
		name, dsn, must, before, after string
	}{
		{"no server is named", "", "", "", "^Example"},
		{"and the user skips something", "", "", "^TestSlow", "^TestSlow|^Example"},
		{"a server is named", "user@/db", "", "", ""},
		{"they must run", "", "1", "", ""},
	} {
		t.Setenv("ROWLOCK_TEST_MYSQL_DSN", c.dsn)
		t.Setenv("ROWLOCK_TEST_MUST_RUN", c.must)
		_ = flag.Set("test.skip", c.before)
		testserver.Examples(testserver.MySQL)
		if got := flag.Lookup("test.skip").Value.String(); got != c.after {
			t.Errorf("%s: -skip %q, want %q", c.name, got, c.after)
		}
	}
}
