package testserver

import (
	"flag"
	"strconv"
)

// Parallel lets n of a package's parallel tests run at a time, where no flag -parallel says how many: they wait for
// servers most of the time, so more of them than there are cores. It is called at the beginning of TestMain, before the
// flags are parsed.
func Parallel(n int) {
	if err := flag.Set("test.parallel", strconv.Itoa(n)); err != nil {
		panic(err) // a flag of package testing
	}
}
