package rowlockcli

import (
	"context"
	"io"
	"os"
	"time"

	"github.com/rowlock/rowlock/cmd/rowlock/internal/messages"
)

// tellWait says what is waited for, on a terminal or with --verbose, until ctx ends.
func (r *run) tellWait(ctx context.Context) {
	if !r.flags.verbose && !isTerminal(r.stderr) {
		return
	}
	go func() {
		for d := firstWaitNotice; ; d = nextNotice {
			select {
			case <-ctx.Done():
				return
			case <-time.After(d):
			}
			asking, cancel := context.WithTimeout(ctx, time.Duration(r.flags.timeout))
			infos, err := r.store.Inspect(asking, r.keys)
			cancel()
			if err != nil || ctx.Err() != nil {
				continue
			}
			for _, info := range infos {
				if len(infos) == 1 || stateOf(info) != "free" {
					r.say("waiting for %q, %s", info.Key, describe(info))
				}
			}
		}
	}()
}

// firstWaitNotice is how long is waited for a key in silence.
const firstWaitNotice = 300 * time.Millisecond

// stillHeld sees to it that "held" is the answer of a database that can be reached: a caller that waited knows only what it
// heard last. It is nil if that is so.
func (r *run) stillHeld() error {
	if r.f.noWait { // it has just been heard
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(r.flags.timeout))
	defer cancel()
	_, err := r.store.Inspect(ctx, []string{r.key})
	return err
}

// isTerminal reports whether a person may read what is written there. (A device that is none costs a question a minute.)
func isTerminal(w io.Writer) bool {
	if m, is := w.(*messages.Writer); is {
		w = m.To()
	}
	f, isFile := w.(*os.File)
	if !isFile {
		return false
	}
	s, err := f.Stat()
	return err == nil && s.Mode()&os.ModeCharDevice != 0
}
