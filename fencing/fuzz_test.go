package fencing

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// FuzzRegister: a token that was remembered is there after a new start, under its
// name byte for byte, whatever else is in the file.
func FuzzRegister(f *testing.F) {
	f.Add("", "a", int64(1))
	f.Add("5 \"a\"\n", "a", int64(9))
	f.Add("5 \"a\"\n7 \"a", "a", int64(6))
	f.Add("-5 \"a\"\n99999999999999999999 \"a\"\n", "a", int64(1<<62))
	f.Add("1 \"\\xff\"\n\n\n2\n\"\"\n", "\xff\xfe\n\"\\ %d", int64(2))
	f.Add(strings.Repeat("x", 10_000), "", int64(1))
	f.Fuzz(func(t *testing.T, content, name string, token int64) {
		path := filepath.Join(t.TempDir(), "tokens")
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		r, err := OpenRegister(path)
		if err != nil {
			t.Fatal(err)
		}
		before := r.Newest(name)
		if before < 0 {
			t.Errorf("newest %d", before)
		}
		wrote := false
		err = r.Do(name, token, func() error { wrote = true; return nil })
		if wrote != (token > 0 && token >= before) || wrote != (err == nil) {
			t.Errorf("token %d after %d: wrote %v, %v", token, before, wrote, err)
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
		again, err := OpenRegister(path)
		if err != nil {
			t.Fatal(err)
		}
		defer again.Close()
		want := before
		if wrote {
			want = max(before, token)
		}
		if got := again.Newest(name); got != want {
			t.Errorf("newest of %q is %d after a new start, want %d", name, got, want)
		}
	})
}
