package fencing

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/rowlock/rowlock"
)

func nothing() error { return nil }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestRegister: a token is taken until a larger one was seen, for each resource.
func TestRegister(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens")
	file, err := OpenRegister(path)
	must(t, err)
	defer file.Close()
	for name, r := range map[string]*Register{"memory": {}, "file": file} {
		for _, c := range []struct {
			resource string
			token    int64
			want     error
		}{
			{"a", 5, nil}, {"a", 5, nil}, {"a", 7, nil}, {"a", 6, ErrStale}, {"b", 6, nil}, {"a", 7, nil},
			{"a", 0, rowlock.ErrInvalid}, {"\"\n7", 1, nil}, {"", 9, nil},
		} {
			ran := false
			err := r.Do(c.resource, c.token, func() error { ran = true; return nil })
			if !errors.Is(err, c.want) || ran != (c.want == nil) {
				t.Errorf("%s: %q %d: %v, the write ran: %v", name, c.resource, c.token, err, ran)
			}
		}
		failed := errors.New("disk full")
		if err := r.Do("c", 3, func() error { return failed }); err != failed {
			t.Errorf("%s: %v", name, err)
		}
		if r.Newest("c") != 3 || r.Newest("d") != 0 {
			t.Errorf("%s: newest %d and %d", name, r.Newest("c"), r.Newest("d"))
		}
	}

	// A crash in the middle of a line: everything before it is there.
	must(t, file.Close())
	must(t, file.Close())
	if err := file.Do("a", 8, nothing); !errors.Is(err, rowlock.ErrClosed) {
		t.Error(err)
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	must(t, err)
	_, err = f.WriteString(`99 "a`)
	must(t, errors.Join(err, f.Close()))
	for range 2 {
		again, err := OpenRegister(path)
		must(t, err)
		for resource, want := range map[string]int64{"a": 7, "b": 6, "\"\n7": 1, "": 9, "c": 3} {
			if got := again.Newest(resource); got != want {
				t.Errorf("%q: %d after a restart, want %d", resource, got, want)
			}
		}
		must(t, again.Do("a", 7, nothing))
		must(t, again.Close())
	}
}

// TestRegisterWritesOneByOne: no write of an older token is under way when a newer
// one begins.
func TestRegisterWritesOneByOne(t *testing.T) {
	var r Register
	var last int64 // no lock: the race detector looks
	var wg sync.WaitGroup
	for token := range int64(200) {
		wg.Go(func() {
			err := r.Do("a", token+1, func() error {
				if token+1 < last {
					t.Errorf("%d wrote after %d", token+1, last)
				}
				last = token + 1
				return nil
			})
			if err != nil && !errors.Is(err, ErrStale) {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if last != 200 || r.Newest("a") != 200 {
		t.Errorf("the last write was %d", last)
	}
}
