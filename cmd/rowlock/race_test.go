//go:build race

package main

// buildFlags make the program what the tests are.
var buildFlags = []string{"-race"}
