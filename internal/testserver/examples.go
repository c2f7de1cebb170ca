package testserver

import (
	"flag"
	"fmt"
	"os"
	"testing"
)

// Examples makes a plain `go test` leave out the examples of a package that need a server of that kind, where no server
// is named: an Example cannot skip itself. It is called from TestMain, before the tests run.
func Examples(kind string) {
	name := variables[kind]
	if os.Getenv(name) != "" || os.Getenv("ROWLOCK_TEST_MUST_RUN") != "" {
		return
	}
	flag.Parse()
	skip := "^Example"
	if more := flag.Lookup("test.skip").Value.String(); more != "" {
		skip = more + "|" + skip
	}
	if err := flag.Set("test.skip", skip); err != nil {
		panic(err) // a flag of package testing
	}
	if testing.Verbose() {
		fmt.Println("examples are left out: " + name + " is not set: run `make test`")
	}
}
