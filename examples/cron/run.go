package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/rowlock/rowlock/examples/internal/fleet"
	"github.com/rowlock/rowlock/examples/internal/servers"
)

// message is an event and the pod it comes from; err: the pod has ended.
type message struct {
	pod int
	event
	err error
}

// run starts the pods and prints a line for each run of the job. The error says which of them
// should not have been.
func (s *schedule) run(ctx context.Context, w io.Writer) error {
	space := servers.NewSpace("cron")
	defer s.Backend.Drop("cron", space)
	if err := s.Backend.MakeLocks(ctx, space); err != nil {
		return fmt.Errorf("make the lock tables: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute+time.Duration(2*s.Runs)*max(s.Period, s.Job))
	pods := make([]*fleet.Process, s.Pods)
	defer func() {
		cancel() // kills what still runs
		fleet.Reap(pods...)
	}()
	messages := make(chan message)
	for i := range pods {
		var err error
		if pods[i], err = fleet.Start(ctx, rolePod, podTask{Schedule: *s, Space: space}); err != nil {
			return err
		}
		go listen(ctx, pods[i], i+1, messages)
	}
	fmt.Fprintf(w, "%d pods on %s run a job of %v once in %v\n\n", s.Pods, s.Backend.Name(), s.Job, s.Period)

	b := newBook(s, w)
	for !b.over() {
		var m message
		select {
		case m = <-messages:
		case <-ctx.Done():
			return fmt.Errorf("after %d of %d runs: %w", len(b.runs), s.Runs, context.Cause(ctx))
		}
		if m.err != nil {
			if m.pod != b.killed {
				return fmt.Errorf("pod %d: %w", m.pod, m.err)
			}
			continue
		}
		b.note(m.pod, m.event)
		if pod := b.toKill(); pod > 0 {
			if err := pods[pod-1].Kill(); err != nil {
				return err
			}
			b.kill(pod)
		}
	}
	err := b.verdict()
	for i, p := range pods {
		if i+1 != b.killed && err == nil {
			err = errors.Join(err, p.Close())
		}
	}
	return err
}

// listen passes on what a pod says until it ends.
func listen(ctx context.Context, p *fleet.Process, pod int, to chan<- message) {
	for {
		m := message{pod: pod}
		m.err = p.Receive(&m.event)
		select {
		case to <- m:
		case <-ctx.Done():
			return
		}
		if m.err != nil {
			return
		}
	}
}
