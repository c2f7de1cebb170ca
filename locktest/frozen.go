// P2 with a holder process that stands still, and with a server that does.

package locktest

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/rowlock/rowlock"
)

var frozen = []testCase{
	{name: "P2_FrozenProcess", long: true, run: frozenProcess, needs: freezing},
	{name: "P2_FrozenProcessesTrust", long: true, run: frozenTrust, needs: freezing},
	{name: "P2_ServerPaused", long: true, run: serverPaused, needs: server},
}

// frozenProcess stops a holder for longer than its TTL. Its first look after that
// must say lost.
func frozenProcess(t *testing.T, e *env) {
	key := e.key(t)
	p := e.start(t, job{Role: "hold", Key: key, TTL: e.short})
	token := p.held()
	p.freeze()
	lease := acquire(t, e.client(t, rowlock.Options{}), key)
	granted := time.Now().UnixNano()
	if lease.Token() <= token {
		Breach(t, "P3", "token %d was granted after %d", lease.Token(), token)
	}
	p.thaw()
	reason, rest, _ := strings.Cut(p.expect("lost"), " ")
	s, err := parseSpan(rest)
	if err != nil {
		t.Fatal(err)
	}
	if s.last > granted {
		Breach(t, "P2", "a frozen process trusted its lease %v after another had the key", time.Duration(s.last-granted))
	}
	if r := rowlock.Reason(reason); r != rowlock.ReasonExpired && r != rowlock.ReasonTaken {
		t.Errorf("the frozen holder's reason is %q", reason)
	}
	p.expect("done")
	if err := renew1(t, lease); err != nil {
		t.Errorf("P5: the new holder lost its lease to the one that came back: %v", err)
	}
	release1(t, lease)
}

// freezeSome freezes one of them after the other, by chance, for longer than a lease lasts.
func (e *env) freezeSome(children []*process, times int) {
	for range times {
		p := children[rand.IntN(len(children))]
		time.Sleep(rand.N(e.short / 2))
		p.freeze()
		time.Sleep(e.short * 5 / 4)
		p.thaw()
	}
}

// frozenTrust freezes processes at random moments while they hand a key around.
func frozenTrust(t *testing.T, e *env) {
	const programs, freezes = 3, 6
	j := job{Role: "trust", Key: e.key(t), TTL: e.short, For: (freezes + 2) * 3 * e.short / 2}
	var children []*process
	for range programs {
		children = append(children, e.start(t, j))
	}
	e.freezeSome(children, freezes)
	var spans []span
	for _, p := range children {
		for line := p.next(); line != "done"; line = p.next() {
			s, err := parseSpan(strings.TrimPrefix(line, "span "))
			if err != nil {
				t.Fatalf("a child said %q: %v", line, err)
			}
			spans = append(spans, s)
		}
	}
	checkSpans(t, spans)
}

// serverPaused freezes the server under a holder: its statements hang, on sockets
// that stay open.
func serverPaused(t *testing.T, e *env) {
	srv, open := e.Server(t)
	c := e.clientOn(t, open(t), rowlock.Options{TTL: 2 * time.Second})
	key := e.key(t)
	lease := acquire(t, c, key)
	srv.Pause()
	paused := true
	t.Cleanup(func() { // before the client's Close
		if paused {
			srv.Resume()
		}
	})
	closed(t, "Done is closed while the server hangs", lease.Done())
	if err := lease.Err(); !errors.Is(err, rowlock.ErrLost) || reasonOf(err) != rowlock.ReasonExpired {
		t.Errorf("P2: Err is %v, want ErrLost for reason expired", err)
	}
	srv.Resume()
	paused = false
	next := acquire(t, c, key)
	if next.Token() <= lease.Token() {
		Breach(t, "P3", "token %d was granted after %d", next.Token(), lease.Token())
	}
	release1(t, next)
}
