package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/rowlock/rowlock/examples/internal/fleet"
	"github.com/rowlock/rowlock/examples/internal/servers"
)

// message is an event and the pod it comes from; err: the pod has ended badly.
type message struct {
	pod int
	event
	err error
}

// run starts the pods and prints a line for each tick. The error says which ticks
// did not run exactly once.
func (s *schedule) run(ctx context.Context, w io.Writer) error {
	space := servers.NewSpace("cron")
	defer s.Backend.Drop("cron", space)
	if err := makeTables(ctx, s.Backend, space); err != nil {
		return fmt.Errorf("make the lock tables: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	pods := make([]*fleet.Process, s.Pods)
	defer func() {
		cancel() // kills what still runs
		fleet.Reap(pods...)
	}()
	var lates []string
	for i := range pods {
		late := s.Skew * time.Duration(i) / time.Duration(max(1, s.Pods-1))
		lates = append(lates, late.String())
		var err error
		if pods[i], err = fleet.Start(ctx, rolePod, podTask{Schedule: *s, Space: space, Pod: i + 1, Late: late}); err != nil {
			return err
		}
	}
	for _, p := range pods {
		var ready event
		if err := p.Receive(&ready); err != nil {
			return err
		}
	}
	begin := time.Now().Add(200 * time.Millisecond)
	for _, p := range pods {
		if err := p.Send(begin); err != nil {
			return err
		}
	}
	fmt.Fprintf(w, "%d pods on %s, %d ticks of %v, MinHold %v; their clocks are late by %s\n\n",
		s.Pods, s.Backend.Name(), s.Ticks, s.Period, s.MinHold, strings.Join(lates, ", "))

	messages := make(chan message)
	for i, p := range pods {
		go listen(p, i+1, s.Ticks, messages)
	}
	b := newBook(s, begin, w)
	alive := s.Pods
	for alive > 0 && b.open() {
		var m message
		select {
		case m = <-messages:
		case <-ctx.Done():
			return ctx.Err()
		}
		switch {
		case m.err != nil && m.pod == b.killed:
			alive--
			b.gone(m.pod)
		case m.err != nil:
			alive--
			b.gone(m.pod)
			b.problem("pod %d: %v", m.pod, m.err)
		default:
			b.note(m.pod, m.event)
		}
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

// listen passes on what a pod says until it has said all.
func listen(p *fleet.Process, pod, ticks int, to chan<- message) {
	for {
		m := message{pod: pod}
		m.err = p.Receive(&m.event)
		to <- m
		if m.err != nil || m.Tick == ticks && m.Kind != ran {
			return
		}
	}
}
