//go:build unix

package mysqllock

import (
	"bufio"
	"context"
	"fmt"
	"os"
	osexec "os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/testserver"
)

const holderVariable = "ROWLOCK_TEST_HOLDER"

// TestForUpdateHolder is the child of the tests below: it holds a key until it ends.
func TestForUpdateHolder(t *testing.T) {
	config := os.Getenv(holderVariable)
	if config == "" {
		return // not a child
	}
	s, err := openConfig(config)
	must(t, err)
	c, err := rowlock.New(s, rowlock.Options{TTL: time.Second})
	must(t, err)
	lease, err := c.Acquire(context.Background(), "a")
	must(t, err)
	fmt.Println("held", lease.Token())
	<-lease.Done()
	fmt.Println("lost", lease.Err())
}

// holder starts a process that holds the key "a" with a TTL of a second.
func holder(t *testing.T, l *lab) (p *os.Process, token int64, lost func() string) {
	t.Helper()
	cmd := osexec.Command(os.Args[0], "-test.run=^TestForUpdateHolder$", "-test.count=1")
	cmd.Env = append(os.Environ(), holderVariable+"="+l.setup())
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	scan := bufio.NewScanner(out)
	next := func(word string) string {
		for scan.Scan() {
			if rest, ok := strings.CutPrefix(scan.Text(), word+" "); ok {
				return rest
			}
		}
		t.Fatalf("the child did not say %q", word)
		return ""
	}
	_, err = fmt.Sscan(next("held"), &token)
	must(t, err)
	return cmd.Process, token, func() string { return next("lost") }
}

// A process that is killed frees its key in milliseconds, whatever the TTL.
func TestForUpdateKilledProcess(t *testing.T) {
	testserver.Long(t)
	onBoth(t, func(t *testing.T, l *lab) {
		c := client{t: t, Store: l.store()}
		c.release(c.granted("warm", time.Second))
		// By its TTL the key would be free after a second. (N7's 50 ms are for the benchmark.)
		best(t, "granted after the kill", 500*time.Millisecond, func() time.Duration {
			p, token, _ := holder(t, l)
			held := c.inspect("a").Held // a busy holder may have lost it
			start := time.Now()
			must(t, p.Kill())
			h := freeSoon(t, c, "a")
			took := time.Since(start)
			if h.Token < token+driver.TokenRange {
				t.Fatalf("token %d after %d", h.Token, token)
			}
			c.release(h)
			if !held {
				return time.Hour
			}
			return took
		})
	})
}

// A process that stands still loses its key after its TTL, by the server's doing,
// and knows it at its first look.
func TestForUpdateFrozenProcess(t *testing.T) {
	testserver.Long(t)
	onBoth(t, func(t *testing.T, l *lab) {
		c := client{t: t, Store: l.store()}
		// The last heartbeat of a holder that is busy may have been a while ago.
		best(t, "P1: how long before the end of its TTL of 1s a frozen holder's key was granted", 200*time.Millisecond, func() time.Duration {
			p, token, lost := holder(t, l)
			start := time.Now()
			must(t, p.Signal(syscall.SIGSTOP))
			h := freeSoon(t, c, "a")
			took := time.Since(start)
			t.Logf("granted %v after the holder was stopped, TTL 1s", took)
			if h.Token < token+driver.TokenRange {
				t.Fatalf("token %d after %d", h.Token, token)
			}
			must(t, p.Signal(syscall.SIGCONT))
			t.Logf("the holder: %s", lost())
			c.alive("renew", h)
			c.release(h)
			return time.Second - took
		})
	})
}
