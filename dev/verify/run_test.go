package main

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rowlock/rowlock/dev/testenv"
	"github.com/rowlock/rowlock/dev/verify/fault"
)

// TestMostRoundsKeepTheClock: after the server's clock was set little is asked of the rest of a round, so that is done in
// one round of three.
func TestMostRoundsKeepTheClock(t *testing.T) {
	sets := func(f fault.Fault) bool { return slices.Contains(f.Uses, fault.Clock) }
	for _, f := range fault.All() {
		server := strings.Contains(f.Name, "clock") && !strings.HasPrefix(f.Name, "client-")
		if server != sets(f) {
			t.Errorf("%s uses %v", f.Name, f.Uses)
		}
	}
	const rounds = 300
	p, with := plan{lines: 3, round: time.Minute}, 0
	for seed := range uint64(rounds) {
		c := p.config(testenv.MySQL, fault.All(), seed)
		if slices.ContainsFunc(c.Faults, sets) {
			with++
		}
	}
	if with < rounds/5 || with > rounds/2 {
		t.Errorf("the clock may be set in %d of %d rounds", with, rounds)
	}
	p.faults = []string{"clock-stepped-far"}
	if c := p.config(testenv.MySQL, fault.All(), 0); !slices.ContainsFunc(c.Faults, sets) {
		t.Error("a fault that was asked for is left out")
	}
}
