package testenv_test

import (
	"strings"
	"testing"

	"github.com/rowlock/rowlock/dev/testenv"
)

// TestFindRunning uses a running server that a variable names, and leaves it alone.
func TestFindRunning(t *testing.T) {
	own := start(t, testenv.Mongo)
	t.Setenv("ROWLOCK_TEST_MODE", "env")
	t.Setenv("ROWLOCK_TEST_MONGO_URI", own.DSN())

	shared, err := testenv.Find(t.Context(), testenv.Mongo)
	must(t, "find", err)
	if shared.DSN() != own.DSN() || shared.Source() != testenv.Env || shared.Version() != own.Version() {
		t.Errorf("found %s %s from %s, want the running server", shared.DSN(), shared.Version(), shared.Source())
	}
	if shared.Pause() == nil || shared.Kill() == nil || shared.Restart(t.Context()) == nil {
		t.Error("a shared server was paused, killed or restarted")
	}
	must(t, "close the shared one", shared.Close())
	c := connect(t, own)
	must(t, "the server still answers", c.insert("a"))

	if _, err := testenv.Start(t.Context(), testenv.Mongo); err == nil {
		t.Error("mode env started a server of one's own")
	}
}

// TestNoWay: the error names every way out.
func TestNoWay(t *testing.T) {
	t.Setenv("ROWLOCK_TEST_MODE", "local")
	t.Setenv("ROWLOCK_TEST_MYSQL_DSN", "")
	t.Setenv("ROWLOCK_TEST_CACHE", t.TempDir())
	t.Setenv("PATH", t.TempDir())
	_, err := testenv.Find(t.Context(), testenv.MySQL)
	if err == nil {
		t.Fatal("a server came out of nothing")
	}
	for _, way := range []string{"ROWLOCK_TEST_MYSQL_DSN", "PATH", "Docker", "testenv provision"} {
		if !strings.Contains(err.Error(), way) {
			t.Errorf("the error does not name %q:\n%v", way, err)
		}
	}
}

// TestBadMode: a typing mistake is not taken for "any way".
func TestBadMode(t *testing.T) {
	t.Setenv("ROWLOCK_TEST_MODE", "dockr")
	if _, err := testenv.Find(t.Context(), testenv.Mongo); err == nil || !strings.Contains(err.Error(), "dockr") {
		t.Errorf("ROWLOCK_TEST_MODE=dockr: %v", err)
	}
}

func TestParseKind(t *testing.T) {
	for _, k := range testenv.Kinds {
		if got, err := testenv.ParseKind(string(k)); got != k || err != nil {
			t.Errorf("ParseKind(%s) = %s, %v", k, got, err)
		}
	}
	if _, err := testenv.ParseKind("postgres"); err == nil {
		t.Error("postgres was taken for a kind")
	}
}
