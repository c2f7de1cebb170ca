package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// BenchmarkRun is what a lock around a command costs: true alone, under flock, and under rowlock run on each
// server. Each is a whole process, with the connection to the server that it makes.
func BenchmarkRun(b *testing.B) {
	loop := func(b *testing.B, env []string, command ...string) {
		for b.Loop() {
			cmd := exec.Command(command[0], command[1:]...)
			cmd.Env = append(os.Environ(), env...)
			if out, err := cmd.CombinedOutput(); err != nil {
				b.Fatalf("%v\n%s", err, out)
			}
		}
	}
	b.Run("true", func(b *testing.B) { loop(b, nil, "true") })
	b.Run("flock", func(b *testing.B) {
		if _, err := exec.LookPath("flock"); err != nil {
			b.Skip(err)
		}
		loop(b, nil, "flock", filepath.Join(b.TempDir(), "lock"), "true")
	})
	program := filepath.Join(bin, "rowlock")
	b.Run("version", func(b *testing.B) { loop(b, nil, program, "version") })
	for _, kind := range kinds {
		b.Run(kind, func(b *testing.B) {
			address := database(b, kind)
			must(b, open(b, address).Migrate(b.Context()))
			loop(b, []string{"ROWLOCK_DB=" + address}, program, "run", "key", "--", "true")
		})
	}
}
