package guard

import (
	"encoding/gob"
	"io"
	"os/exec"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"
)

// signalled are the signals that each process was sent. The signals go to it, unless it is to survive them.
type signalled struct {
	mu sync.Mutex
	to map[int][]syscall.Signal
}

// watchSignals has every signal of this package noted, and calls before ahead of each.
func watchSignals(t *testing.T, deliver bool, before func(pid int)) *signalled {
	t.Helper()
	s := &signalled{to: make(map[int][]syscall.Signal)}
	kill = func(pid int, signal syscall.Signal) error {
		before(pid)
		s.mu.Lock()
		s.to[pid] = append(s.to[pid], signal)
		s.mu.Unlock()
		if !deliver {
			return nil
		}
		return syscall.Kill(pid, signal)
	}
	t.Cleanup(func() { kill = syscall.Kill })
	return s
}

// sleeper is a process below this one.
func sleeper(t *testing.T) int {
	t.Helper()
	cmd := exec.Command("sleep", "60")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Kill(cmd.Process.Pid, syscall.SIGKILL); _ = cmd.Wait() })
	return cmd.Process.Pid
}

// TestKillOfAJobThatForks: a process that is started while others are stopped is stopped and killed with them, and none is
// killed before all are stopped: until then any of them could start another one.
func TestKillOfAJobThatForks(t *testing.T) {
	first := sleeper(t)
	second := 0
	s := watchSignals(t, true, func(int) {
		if second == 0 {
			second = -1
			second = sleeper(t) // the first has started it
		}
	})
	if r := killAll(first, 0, 0); r != nil {
		t.Fatalf("refused: %+v", *r)
	}
	for name, pid := range map[string]int{"first": first, "second": second} {
		if got := s.to[pid]; !slices.Equal(got, []syscall.Signal{syscall.SIGSTOP, syscall.SIGKILL}) {
			t.Errorf("the %s was sent %v, want STOP and KILL", name, got)
		}
	}
}

// TestLooksOfAJobThatForks: a job whose processes end all the time costs no look at all processes for each of them.
func TestLooksOfAJobThatForks(t *testing.T) {
	const deaths = 1000
	pid := sleeper(t)
	s := watchSignals(t, false, func(int) {})
	g := &child{
		c: Command{Grace: time.Second}, pid: pid, until: Now() + time.Hour, killAt: 1,
		events: gob.NewEncoder(io.Discard), ended: make(chan death, deaths),
	}
	for range deaths {
		g.ended <- death{pid: 1}
	}
	close(g.ended)
	began := Now()
	g.run()
	most := int((Now()-began)/killPause) + 2
	looks := 0
	for _, signal := range s.to[pid] {
		if signal == syscall.SIGKILL {
			looks++
		}
	}
	if looks == 0 || looks > most {
		t.Errorf("%d processes ended, and there were %d looks, want from 1 to %d", deaths, looks, most)
	}
}
