package rowlockcli

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/rowlock/rowlock"
)

const (
	// pingTime bounds one ping, with its repetitions.
	pingTime = 5 * time.Second

	// pingPause is the time between two tries of a ping.
	pingPause = time.Second
)

// pinger tells a service that watches jobs, as healthchecks.io, when the command is started (URL/start), ends with exit code 0 (URL)
// and fails (URL/fail). It sends in a goroutine of its own, so nobody waits for it but the end of the run.
type pinger struct {
	url     *url.URL
	warn    func(string)
	queue   chan string // what is added to the URL's path
	stop    context.CancelFunc
	done    chan struct{}
	started bool // the command, since the last end
}

// checkPing refuses what is no URL for --ping.
func (f *runFlags) checkPing() (err error) {
	if f.ping == "" {
		return nil
	}
	u, err := url.Parse(f.ping)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return invalid("--ping: use a URL that begins with http:// or https://, for example https://hc-ping.com/ID")
	}
	return nil
}

// startPinger makes the pinger of --ping, or nil, which sends nothing.
func (r *run) startPinger() *pinger {
	if r.f.ping == "" {
		return nil
	}
	u, err := url.Parse(r.f.ping)
	if err != nil {
		return nil // checkPing has refused it
	}
	if password, ok := u.User.Password(); ok {
		r.secrets = append(r.secrets, password)
	}
	ctx, stop := context.WithCancel(context.Background())
	p := &pinger{url: u, warn: r.warn, queue: make(chan string, 16), stop: stop, done: make(chan struct{})}
	go p.run(ctx)
	return p
}

// start says that the command is started.
func (p *pinger) start() {
	if p == nil {
		return
	}
	p.started = true
	p.add("start")
}

// end says how a call of the command ended. Of a command that was not started nothing is said where another has
// the key or has made the run, or a signal came: the pings of the other one count.
func (p *pinger) end(err error) {
	if p == nil {
		return
	}
	started := p.started
	p.started = false
	var exit *ExitError
	switch {
	case started && ExitCode(err) == 0:
		p.add("")
	case started:
		p.add("fail")
	case err == nil, errors.Is(err, rowlock.ErrHeld), errors.Is(err, errRanBefore), errors.As(err, &exit) && exit.Err == nil:
	default:
		p.add("fail")
	}
}

func (p *pinger) add(path string) {
	select {
	case p.queue <- path:
	default: // so many losses in so short a time that nobody needs to know of each
	}
}

// close waits until the pings are sent, for twice pingTime at most: that of the start may be under way.
func (p *pinger) close() {
	if p == nil {
		return
	}
	close(p.queue)
	timer := time.NewTimer(2*pingTime + pingPause)
	defer timer.Stop()
	select {
	case <-p.done:
	case <-timer.C:
	}
	p.stop()
}

// run sends the pings in their order.
func (p *pinger) run(ctx context.Context) {
	defer close(p.done)
	for path := range p.queue {
		to, name := p.url, "success"
		if path != "" {
			to, name = p.url.JoinPath(path), path
		}
		if err := send(ctx, to.String()); err != nil {
			p.warn(fmt.Sprintf("the ping to %s failed (%s): %v", p.url.Host, name, err))
		}
	}
}

// send sends one ping, up to three times.
func send(ctx context.Context, to string) error {
	ctx, cancel := context.WithTimeout(ctx, pingTime)
	defer cancel()
	for try := 1; ; try++ {
		again, err := sendOnce(ctx, to)
		if err == nil || !again || try == 3 {
			return err
		}
		select {
		case <-time.After(pingPause):
		case <-ctx.Done():
			return err
		}
	}
}

// sendOnce sends it once. again says that another try may succeed.
func sendOnce(ctx context.Context, to string) (again bool, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, to, nil)
	if err != nil {
		return false, err
	}
	request.Header.Set("User-Agent", "rowlock")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		var u *url.Error
		if errors.As(err, &u) {
			err = u.Err // without the address, which may be known to nobody else
		}
		return true, err
	}
	_ = response.Body.Close()
	if response.StatusCode >= 300 {
		return response.StatusCode >= 500 || response.StatusCode == http.StatusTooManyRequests, errors.New(response.Status)
	}
	return false, nil
}
