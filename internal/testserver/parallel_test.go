package testserver_test

import (
	"flag"
	"testing"

	"github.com/rowlock/rowlock/internal/testserver"
)

func TestParallel(t *testing.T) {
	const name = "test.parallel"
	old := flag.Lookup(name).Value.String()
	defer func() { _ = flag.Set(name, old) }()
	if testserver.Parallel(7); flag.Lookup(name).Value.String() != "7" {
		t.Errorf("-parallel is %s, want 7", flag.Lookup(name).Value)
	}
}
