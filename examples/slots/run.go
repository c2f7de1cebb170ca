package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/rowlock/rowlock/examples/internal/fleet"
	"github.com/rowlock/rowlock/examples/internal/servers"
	"github.com/rowlock/rowlock/examples/internal/table"
	"github.com/rowlock/rowlock/examples/internal/timed"
)

// run tells the story. The error says what the partner refused, or what did not come.
func (p *plan) run(ctx context.Context, w io.Writer) error {
	space := servers.NewSpace("slots")
	defer p.Backend.Drop("slots", space)
	if err := p.Backend.MakeLocks(ctx, space); err != nil {
		return fmt.Errorf("make the lock tables: %w", err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	s := &story{plan: p, w: w, began: time.Now(), partner: newPartner(p.Places, p.Call)}
	server := &http.Server{Handler: s.partner, ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(listener) }() // until Close
	defer server.Close()

	ctx, cancel := context.WithTimeoutCause(ctx, time.Minute+10*p.TTL, errors.New("the calls did not come"))
	defer func() {
		cancel() // kills what still runs
		fleet.Reap(s.callers...)
	}()
	s.ended = make(chan ended, p.Callers)
	for i := range p.Callers {
		one, err := fleet.Start(ctx, roleCaller, callerTask{Plan: *p, Number: i + 1, Space: space, Address: "http://" + listener.Addr().String()})
		if err != nil {
			return err
		}
		s.callers = append(s.callers, one)
		go func() {
			var nothing string
			s.ended <- ended{i + 1, one.Receive(&nothing)} // it says nothing: this is its end
		}()
	}
	fmt.Fprintf(w, "%d processes on %s call a partner who takes %d calls at a time, TTL %v\n\n", p.Callers, p.Backend.Name(), p.Places, p.TTL)
	if err := s.tell(ctx); err != nil {
		return err
	}
	for i, one := range s.callers {
		if i+1 != s.killed {
			err = errors.Join(err, one.Close())
		}
	}
	return errors.Join(err, s.end())
}

// story is what happens.
type story struct {
	*plan
	w       io.Writer
	began   time.Time
	partner *partner
	callers []*fleet.Process
	ended   chan ended
	killed  int // the process that is killed; 0: none yet
}

// ended is a process that has ended, and why.
type ended struct {
	process int
	err     error
}

func (s *story) say(format string, args ...any) {
	fmt.Fprintf(s.w, "%6.2fs  %s\n", time.Since(s.began).Seconds(), fmt.Sprintf(format, args...))
}

// tell lets the processes call, kills one in a call, and waits for the return of its place.
func (s *story) tell(ctx context.Context) error {
	if err := s.until(ctx, func() bool { return s.partner.count() >= s.Calls }); err != nil {
		return err
	}
	s.say("%d calls, at most %d at a time", s.partner.count(), s.Places)

	// It may end its call before it is killed: then its lease ends with another's.
	var place int
	err := s.until(ctx, func() bool {
		s.killed, place = s.partner.caller()
		return s.killed != 0
	})
	if err != nil {
		return err
	}
	killed, calls := time.Now(), s.partner.count()
	if err := s.callers[s.killed-1].Kill(); err != nil {
		return err
	}
	s.say("process %d is killed (kill -9) in a call with number %d", s.killed, place)
	var next call
	err = s.until(ctx, func() bool {
		var broken bool
		broken, next = s.partner.brokenOff(place)
		return !broken && next.Caller != 0 || !broken && time.Since(killed) > 3*s.TTL
	})
	switch {
	case err != nil:
		return err
	case next.Caller == 0:
		s.say("the call with number %d was over a moment before", place)
	default:
		s.say("process %d has number %d, %.1f s after; %d calls with the other numbers meanwhile", next.Caller, place, time.Since(killed).Seconds(), s.partner.count()-calls)
	}
	calls = s.partner.count()
	if err := s.until(ctx, func() bool { return s.partner.count() >= calls+s.Calls }); err != nil {
		return err
	}
	s.say("%d calls", s.partner.count())
	return nil
}

// until waits until it is enough. A process that ends, and was not killed, fails the story.
func (s *story) until(ctx context.Context, enough func() bool) error {
	for !enough() {
		select {
		case e := <-s.ended:
			if e.process != s.killed {
				return fmt.Errorf("process %d: %w", e.process, e.err)
			}
		default:
		}
		if err := timed.Sleep(ctx, 2*time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

// end prints what the partner has seen. The error says what it refused.
func (s *story) end() error {
	p := s.partner
	p.mu.Lock()
	defer p.mu.Unlock()
	out := table.Table{}
	out.Add("number", "calls", "processes", "longest without a call")
	for i, at := range p.places {
		out.Add(i, at.calls, len(at.users), fmt.Sprintf("%.2fs", at.longest.Seconds()))
	}
	fmt.Fprintln(s.w)
	out.Print(s.w)
	slices.Sort(p.waits)
	fewest, most := p.calls, 0
	for i := range s.Callers {
		if n := p.of[i+1]; i+1 != s.killed {
			fewest, most = min(fewest, n), max(most, n)
		}
	}
	fmt.Fprintf(s.w, "\nA call waited %.2f s for a number (median), %.2f s at most; a process had %d to %d calls.\n", p.waits[len(p.waits)/2], p.waits[len(p.waits)-1], fewest, most)
	if len(p.refused) > 0 {
		return errors.Join(p.refused...)
	}
	fmt.Fprintf(s.w, "At most %d calls at a time, no number twice, tokens rise with each number: the partner refused nothing.\n", p.most)
	return nil
}
