// Command rowlock runs commands under a distributed lock that is kept in MySQL, MariaDB or MongoDB,
// and shows and mends such locks. See docs/guides/command-line.md.
package main

import (
	"os"

	"github.com/rowlock/rowlock/cmd/rowlock/rowlockcli"
)

func main() { os.Exit(rowlockcli.Main()) }
