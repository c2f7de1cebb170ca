// Command reruns names the tests that failed at their first run and passed at their second, and fails if no load of the
// machine excuses one of them.
//
//	reruns FILE…
//
// FILEs are what `go test -json` prints. It runs in the project's root, because it looks into the sources for what is a
// failure and what is a log line: both print alike.
//
// No load excuses a data race, a message that names a promise which time cannot break (two holders, a token going back,
// a stale commit), and any failure of a test that is named after such a promise, unless all that it says is that a time
// ran out. What is left are tests of time, and waits that ended, which a busy machine can break.
package main

import (
	"fmt"
	"io"
	"os"
)

func main() {
	code, err := report(os.Stdout, ".", os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "reruns:", err)
		code = 2
	}
	os.Exit(code)
}

// report reads the files, writes what failed, and returns 1 if something of it is not excused.
func report(w io.Writer, root string, files []string) (int, error) {
	if len(files) == 0 {
		return 0, fmt.Errorf("no test reports: were the tests run?")
	}
	var failed []failure
	races := 0
	for _, file := range files {
		f, err := os.Open(file)
		if err != nil {
			return 0, err
		}
		found, raced, err := parse(f)
		f.Close()
		if err != nil {
			return 0, fmt.Errorf("%s: %w", file, err)
		}
		failed = append(failed, found...)
		races += raced
	}
	bad := 0
	for _, f := range failed {
		verdict, why := "a busy machine can break it", f.broken(sources{root})
		if why != "" {
			verdict = "NOT EXCUSED: " + why
			bad++
		}
		fmt.Fprintf(w, "reruns: %s %s failed once or more; %s\n", f.pkg, f.test, verdict)
	}
	switch {
	case bad > 0 || races > 0:
		fmt.Fprintf(w, "reruns: %d failures and %d data races that no load excuses, if they showed only once\n", bad, races)
		return 1, nil
	case len(failed) == 0:
		fmt.Fprintln(w, "reruns: every test passed at its first run")
	}
	return 0, nil
}
