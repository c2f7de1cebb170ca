package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rowlock/rowlock/internal/testserver"
)

// TestGuideThreeHosts: the crontab of the guide on three hosts, whose clocks are up to two seconds early or
// late and of which one is killed while its job runs, begins one run a tick. A tick whose calls the machine
// has made late is not judged.
func TestGuideThreeHosts(t *testing.T) {
	testserver.Long(t)
	t.Parallel()
	// A call may be late by early, and the hosts still agree on the tick: 2*early + early < period/2, and
	// period - 2*early - early > period/2.
	const early, period, killed, ticks, judged = 2 * time.Second, 14 * time.Second, 1, 8, 4
	address := database(t, testserver.MySQL)
	must(t, open(t, address).Migrate(t.Context()))
	runs := filepath.Join(t.TempDir(), "runs")
	offsets := []time.Duration{-early, early / 3, early}
	var hosts []*host
	var line string
	for i := range offsets {
		h := newHost(t, address)
		h.program("report", fmt.Sprintf("echo %d >>%s; sleep 0.3", i, runs))
		line = h.crontab(address, "report")
		if !strings.Contains(line, "run -x --period 10m report") {
			t.Fatalf("another line: %s", line)
		}
		hosts = append(hosts, h)
	}
	// Ten minutes are too long for a test; and the lease of the host that dies is to be over at the next tick.
	line = strings.Replace(line, "--period 10m", fmt.Sprintf("--period %ds --ttl 5s", period/time.Second), 1)
	begun := func() int {
		text, _ := os.ReadFile(runs)
		return strings.Count(string(text), "\n")
	}
	start := time.Now().Add(2 * early)
	good := 0
	for tick := 0; tick < ticks && good < judged; tick++ {
		before, dies := begun(), tick == killed
		if dies {
			hosts[0].program("report", fmt.Sprintf("echo 0 >>%s; exec sleep 60", runs))
		}
		done := make(chan time.Duration, len(hosts))
		for i, h := range hosts {
			at := start.Add(time.Duration(tick)*period + offsets[i])
			go func() {
				time.Sleep(time.Until(at))
				cmd := h.sh(h.crontabLine(line))
				if dies && i == 0 {
					done <- h.dieWith(cmd, at, func() bool { return begun() > before })
					return
				}
				out, err := cmd.CombinedOutput()
				if err != nil || len(out) > 0 {
					t.Errorf("tick %d: %v\n%s", tick, err, out)
				}
				done <- time.Since(at)
			}()
		}
		late := time.Duration(0)
		for range hosts {
			late = max(late, <-done)
		}
		n := begun() - before
		if dies {
			hosts, offsets = hosts[1:], offsets[1:]
		}
		if late > early {
			t.Logf("tick %d is not judged: a call took %v", tick, late)
			continue
		}
		good++
		if n != 1 {
			t.Errorf("tick %d: %d runs were begun, want 1", tick, n)
		}
	}
	if good < judged {
		t.Errorf("only %d ticks of %d were made in time: the machine was too busy", good, ticks)
	}
}

// dieWith starts a command and kills it when its job has begun, or another host has it. It returns how late
// the job began.
func (h *host) dieWith(cmd *exec.Cmd, at time.Time, begun func() bool) time.Duration {
	err := cmd.Start()
	for err == nil && !begun() && time.Since(at) < time.Minute {
		time.Sleep(20 * time.Millisecond)
	}
	late := time.Since(at)
	if err == nil {
		err = cmd.Process.Kill()
	}
	if err != nil {
		h.t.Error(err)
	}
	_ = cmd.Wait()
	return late
}

// TestGuideWaitingHost: with the crontab for each minute a host that comes second waits, makes the run when the first host
// dies, and says nothing.
func TestGuideWaitingHost(t *testing.T) {
	t.Parallel()
	address := database(t, testserver.MySQL)
	first, second := newHost(t, address), newHost(t, address)
	must(t, first.store.Migrate(t.Context()))
	started := filepath.Join(t.TempDir(), "started")
	first.program("report", "touch "+started+"; exec sleep 60")
	second.program("report", "echo made")
	var lines []string
	for _, h := range []*host{first, second} {
		lines = append(lines, strings.Replace(h.crontab(address, "minute"), "--ttl 20s", "--ttl 5s", 1))
	}
	dying := first.sh(lines[0])
	must(t, dying.Start())
	isThere := func() bool {
		_, err := os.Stat(started)
		return err == nil
	}
	eventually(t, "the first host makes the run", isThere)
	waiting := make(chan string, 1)
	go func() {
		out, _ := second.sh(lines[1]).CombinedOutput()
		waiting <- string(out)
	}()
	eventually(t, "the second host waits", func() bool {
		infos, err := second.store.Inspect(t.Context(), []string{"report"})
		must(t, err)
		return infos[0].Waiting > 0
	})
	must(t, dying.Process.Kill())
	_ = dying.Wait()
	if got := <-waiting; got != "made\n" {
		t.Errorf("the second host: %q", got)
	}
}

// crontabLine is the line of another host's crontab on this one.
func (h *host) crontabLine(line string) string {
	fields := strings.Fields(line)
	fields[len(fields)-1] = filepath.Join(h.folder, "report")
	return strings.Join(fields, " ")
}
