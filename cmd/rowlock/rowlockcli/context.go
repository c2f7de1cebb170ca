package rowlockcli

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// untilSignal is a context that ends at a signal, with the exit code for it as the cause.
func untilSignal(parent context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(parent)
	signals := make(chan os.Signal, 1)
	listen(signals, []os.Signal{os.Interrupt, syscall.SIGTERM})
	done := make(chan struct{})
	go func() {
		select {
		case s := <-signals:
			cancel(&ExitError{Code: signalCode(s)})
		case <-done:
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		close(done)
		cancel(nil)
	}
}
