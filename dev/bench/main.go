// Command bench measures rowlock beside what it is compared with: see package benchcli.
package main

import "github.com/rowlock/rowlock/dev/bench/benchcli"

func main() { benchcli.Main() }
