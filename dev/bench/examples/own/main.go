// Command own is the benchmark with a lock of one's own beside the rest: a file that only
// one can create. Run it as the benchmark itself:
//
//	.cache/testenv run -- go run ./examples/own -servers mysql -only N1,N2
//	.cache/testenv run -- go run ./examples/own -servers mysql -processes 4 -workers 4
package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/rowlock/rowlock/dev/bench/benchcli"
	"github.com/rowlock/rowlock/dev/bench/own"
)

func main() {
	own.Register("lock file", open)
	benchcli.Main()
}

func open(context.Context, int) (own.Locker, error) {
	folder := filepath.Join(os.TempDir(), "rowlock-bench-own")
	return files(folder), os.MkdirAll(folder, 0o700)
}

type files string

// Lock tries each millisecond. What a process that was killed leaves stays locked: no lock
// for more than a demonstration.
func (f files) Lock(ctx context.Context, key string) (own.Hold, error) {
	name := filepath.Join(string(f), key)
	for {
		file, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if err == nil {
			return held(name), file.Close()
		}
		if !errors.Is(err, os.ErrExist) {
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(time.Millisecond):
		}
	}
}

func (f files) Close() error { return nil }

type held string

func (h held) Unlock(context.Context) error { return os.Remove(string(h)) }
