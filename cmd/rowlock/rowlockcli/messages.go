package rowlockcli

import (
	"io"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/rowlock/rowlock/cmd/rowlock/internal/messages"
)

// messagePatience is how long the end of the program waits for stderr to take the last messages.
const messagePatience = time.Second

// withoutWaiting lets the messages of run go to stderr without a wait: neither a full pipe nor one
// that nobody reads any more may keep it from ending a command, or end it. The function that it
// returns waits a moment for the last ones.
func (a *app) withoutWaiting(stderr io.Writer) (flush func()) {
	// With a handler a write into a pipe that nobody reads is an error, without one it ends this process. The
	// handler is not inherited by the command; a signal that is ignored would be.
	listen(make(chan os.Signal, 1), []os.Signal{syscall.SIGPIPE})
	w := messages.New(stderr)
	a.stderr = w
	return func() { w.Flush(messagePatience) }
}

// sayLast writes what the program says at its end.
func sayLast(text string) {
	w := messages.New(os.Stderr)
	_, _ = w.Write([]byte("rowlock: " + strings.TrimPrefix(text, "rowlock: ") + "\n"))
	w.Flush(messagePatience)
}
