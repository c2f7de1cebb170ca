package main

import (
	"slices"
	"testing"
)

// TestUnmatched: a pattern whose tests are gone is not taken for one that passes.
func TestUnmatched(t *testing.T) {
	tests := []string{"TestA", "TestA/mysql", "TestA/mysql/P1_x", "TestB"}
	for pattern, want := range map[string][]string{
		"TestA/.*/P1":                  nil,
		"TestA/(mysql|mariadb)/P1":     nil,
		"TestA/mysql/P2":               {"TestA/mysql/P2"},
		"TestB/x":                      {"TestB/x"},
		"TestB|TestC":                  {"TestC"},
		"TestA/mysql/P1_x|^TestB$":     nil,
		"TestA/(mysql|mariadb)/(P2|P)": nil,
		"Test(B|A)/mongo":              {"Test(B|A)/mongo"},
	} {
		without, err := unmatched(pattern, tests)
		if err != nil || !slices.Equal(without, want) {
			t.Errorf("%s: %q, want %q (%v)", pattern, without, want, err)
		}
	}
}

// TestGrouped: without a bug each test runs once for all the patches that name it.
func TestGrouped(t *testing.T) {
	var commands []command
	for _, text := range []string{
		"go test -run TestA .",
		"go test -run 'TestB/(x|y)' .",
		"go test -run TestA .",
		"go test -run TestA -race .",
		"go test -run TestA ./mysql",
	} {
		c, err := parseCommand(text)
		if err != nil {
			t.Fatal(err)
		}
		commands = append(commands, c)
	}
	var got []string
	for _, c := range grouped(commands) {
		got = append(got, c.String())
	}
	want := []string{"go test -run 'TestA|TestB/(x|y)' .", "go test -run 'TestA' -race .", "go test -run 'TestA' ./mysql"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
