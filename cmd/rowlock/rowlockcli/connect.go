package rowlockcli

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/signal"
	"strings"
	"sync/atomic"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/handshake"
)

const (
	// nextNotice is the time between two lines about what is waited for.
	nextNotice = time.Minute

	// The time between two questions to a database that does not answer.
	firstAsk = 100 * time.Millisecond
	lastAsk  = time.Second
)

// splay waits for a random part of --splay, so that the hosts of a crontab do not all come at once. Nothing is open meanwhile.
func (r *run) splay() error {
	if r.f.splay == 0 {
		return nil
	}
	signals := make(chan os.Signal, 1)
	listen(signals, whileWaiting)
	defer signal.Stop(signals)
	select {
	case <-time.After(rand.N(time.Duration(r.f.splay))):
		return nil
	case s := <-signals:
		return &ExitError{Code: signalCode(s)}
	}
}

// connect waits until the database answers for the first time, for --connect-wait. What waiting does not mend ends it at once.
func (r *run) connect(parent context.Context) error {
	wait, by := time.Duration(r.f.connectWait), "--connect-wait"
	if wait == 0 { // one question
		wait, by = time.Duration(r.flags.timeout), "--timeout"
	}
	ctx, cancel := context.WithTimeout(parent, wait)
	defer cancel()
	var last atomic.Pointer[error]
	answered := make(chan error, 1)
	go func() { answered <- r.firstAnswer(ctx, &last) }()
	notice := time.NewTimer(time.Duration(r.flags.timeout) * 11 / 10) // so long it may take; then the first question says why
	defer notice.Stop()
	for {
		select {
		case err := <-answered:
			if err == nil {
				return nil
			}
			what := r.store.where
			if !useless(err) {
				what += fmt.Sprintf(" did not answer within %s (%s)", short(wait), by)
			}
			return &ExitError{Code: ExitCode(err), Err: fmt.Errorf("the command was not run: %s: %w", what, err)}
		case s := <-r.signals:
			r.closeWait = 500 * time.Millisecond
			return &ExitError{Code: signalCode(s)}
		case <-notice.C:
			notice.Reset(nextNotice)
			why := ""
			if err := last.Load(); err != nil {
				why = ": " + (*err).Error()
			}
			r.say("waiting for %s, which does not answer, for up to %s (%s)%s", r.store.where, short(wait), by, why)
		}
	}
}

// firstAnswer asks until the database answers. last is why it did not.
func (r *run) firstAnswer(ctx context.Context, last *atomic.Pointer[error]) error {
	for pause := firstAsk; ; pause = min(2*pause, lastAsk) {
		asking, cancel := context.WithTimeout(ctx, time.Duration(r.flags.timeout))
		_, err := r.store.Inspect(asking, []string{r.key})
		cancel()
		if err == nil || useless(err) || r.f.connectWait == 0 {
			return err
		}
		if before := last.Load(); before == nil || ctx.Err() == nil { // the end of the time says less
			last.Store(&err)
		}
		select {
		case <-ctx.Done():
			return *last.Load()
		case <-time.After(pause):
		}
	}
}

// useless reports whether waiting does not mend an error: another password, other tables, another name are needed.
func useless(err error) bool {
	return driver.IsLasting(err) || errors.Is(err, driver.ErrSchema) || errors.Is(err, driver.ErrNotSupported) || errors.Is(err, driver.ErrInvalid) ||
		denied(err) || wrongAddress(err)
}

// wrongAddress reports whether there is no such host, or its certificate cannot be trusted.
func wrongAddress(err error) bool {
	var dns *net.DNSError
	if errors.As(err, &dns) {
		return dns.IsNotFound
	}
	return handshake.Lasts(err) || wrongServers(err)
}

// wrongServers is wrongAddress for MongoDB, whose driver tells what became of each server in the text of one error. One server
// that is only away is reason enough to wait.
func wrongServers(err error) bool {
	servers := strings.Split(err.Error(), "Last error: ")[1:]
	for _, s := range servers {
		if !strings.Contains(s, "no such host") && !strings.Contains(s, "x509: ") && !strings.Contains(s, "tls: ") {
			return false
		}
	}
	return len(servers) > 0
}
