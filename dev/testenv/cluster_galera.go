package testenv

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
)

//go:embed sst/wsrep_sst_testenv
var stateTransfer []byte

// galera is three nodes that are all writable. The addresses lead to one of them: the one that Switch named, as long as
// it can serve, else the first that can.
type galera struct {
	list    []*member
	library string
	dir     string // where the script of the state transfer lies, and joiners and donors meet
	writer  atomic.Int32
}

// arguments: a node that is silent is left behind after three seconds, instead of five. With less a busy machine's nodes
// lose each other.
func (g *galera) arguments(i int, m *member, all []*member) []string {
	m.env = append(m.env, "PATH="+g.dir+":"+os.Getenv("PATH"), "ROWLOCK_SST_DIR="+g.dir)
	return []string{
		"--log-slave-updates=ON", "--binlog-format=ROW", "--innodb-autoinc-lock-mode=2", "--innodb-log-file-size=32M",
		"--wsrep-on=ON", "--wsrep-provider=" + g.library, "--wsrep-cluster-name=rowlock-testenv",
		"--wsrep-cluster-address=" + g.address(all), "--wsrep-node-address=" + m.peerAddr(), fmt.Sprintf("--wsrep-node-name=n%d", i),
		"--wsrep-sst-method=testenv", "--wsrep-slave-threads=2", "--wsrep-sync-wait=0",
		"--wsrep-provider-options=gmcast.listen_addr=tcp://" + m.peerAddr() + ";gcache.size=64M;evs.suspect_timeout=PT3S;evs.inactive_timeout=PT8S;evs.keepalive_period=PT0.5S",
	}
}

func (g *galera) address(all []*member) string {
	return "gcomm://" + hosts(all, func(m *member) string { return m.peerAddr() })
}

const firstPosition = groupName + ":0"

// joinTries is how often a node that ended while it joined is started again: now and then a donor ends a transfer to
// a node of the same second with "No message of desired type".
const joinTries = 2

// form lets the first begin a cluster, and the others join it with a full state transfer: their fresh data know no
// position from which they could go on.
func (g *galera) form(ctx context.Context) error {
	if err := os.WriteFile(filepath.Join(g.dir, "wsrep_sst_testenv"), stateTransfer, 0o755); err != nil {
		return err
	}
	state := "# GALERA saved state\nversion: 2.1\nuuid:    " + groupName + "\nseqno:   0\nsafe_to_bootstrap: 1\n"
	if err := os.WriteFile(filepath.Join(g.list[0].dir, "grastate.dat"), []byte(state), 0o644); err != nil {
		return err
	}
	g.list[0].once = []string{"--wsrep-new-cluster", "--wsrep-start-position=" + firstPosition}
	for i, m := range g.list {
		err := m.startAndWait(ctx)
		for try := 0; err != nil && i > 0 && try < joinTries && ctx.Err() == nil; try++ {
			err = m.startAndWait(ctx) // the transfer failed: it begins anew with whatever lies there
		}
		if err != nil {
			return err
		}
		for g.settled(ctx, i) != nil {
			if err := pollPause(ctx, m.gone); err != nil {
				return fmt.Errorf("node %d does not join: %w\n%s", i, err, tail(m.log))
			}
		}
	}
	g.writer.Store(0)
	return nil
}

func (g *galera) primary(ctx context.Context) int {
	writer := int(g.writer.Load())
	for try := range len(g.list) {
		i := (writer + try) % len(g.list)
		look, cancel := context.WithTimeout(ctx, lookTime)
		err := g.settled(look, i)
		cancel()
		if err == nil {
			if try > 0 {
				g.writer.CompareAndSwap(int32(writer), int32(i))
			}
			return i
		}
	}
	return -1
}

func (g *galera) look(ctx context.Context, _ int) (to int, why string) {
	if to = g.primary(ctx); to < 0 {
		return to, "no member says that it can serve"
	}
	return to, fmt.Sprintf("member %d is the first that says that it can serve", to)
}

// switchTo only moves the addresses: the nodes do not know who is written to.
func (g *galera) switchTo(ctx context.Context, to int) error {
	if err := g.settled(ctx, to); err != nil {
		return err
	}
	g.writer.Store(int32(to))
	return nil
}

func (g *galera) promote(ctx context.Context) error {
	for {
		if at := g.primary(ctx); at >= 0 && g.list[at].up() {
			return nil
		}
		if err := pollPause(ctx, nobodyGone); err != nil {
			return fmt.Errorf("no node can serve: %w", err)
		}
	}
}

// rejoin starts a node that was killed where it stopped; one that was frozen or cut off comes back by itself.
func (g *galera) rejoin(ctx context.Context, i int) error {
	m := g.list[i]
	switch {
	case m.p == nil:
		position, err := g.recover(ctx, m)
		if err != nil {
			return err
		}
		m.once = []string{"--wsrep-start-position=" + position}
		if err := m.startAndWait(ctx); err != nil {
			return err
		}
	case m.paused:
		if err := m.resume(); err != nil {
			return err
		}
	}
	for !g.together(ctx) {
		if err := pollPause(ctx, m.gone); err != nil {
			return fmt.Errorf("the others do not see it take part: %w", err)
		}
	}
	return nil
}

// together reports whether all that are up see the same component, which has all of them. One that was frozen believes for
// a moment that it takes part, while the others have left it behind, and they may be about to. So each is asked by a causal
// read, which needs the answer of every node that it believes to be there.
func (g *galera) together(ctx context.Context) bool {
	up := alive(g.list)
	for range 2 { // the second time all have been asked
		first := ""
		for _, i := range up {
			look, cancel := context.WithTimeout(ctx, lookTime)
			view, err := g.list[i].ask(look, "SET STATEMENT wsrep_sync_wait=1 FOR SELECT GROUP_CONCAT(VARIABLE_VALUE ORDER BY VARIABLE_NAME SEPARATOR ' ') FROM information_schema.GLOBAL_STATUS WHERE VARIABLE_NAME IN ('WSREP_CLUSTER_CONF_ID','WSREP_CLUSTER_SIZE','WSREP_CLUSTER_STATUS')")
			cancel()
			if first == "" {
				first = view
			}
			if err != nil || view != first || !strings.HasSuffix(view, fmt.Sprintf(" %d Primary", len(up))) {
				return false
			}
		}
	}
	return true
}

// recover asks the data of a node that is down for the last transaction that they have.
func (g *galera) recover(ctx context.Context, m *member) (string, error) {
	log := m.dir + ".recover"
	defer os.Remove(log)
	cmd := exec.CommandContext(ctx, m.program, append(m.args[:len(m.args):len(m.args)], "--wsrep-recover", "--log-error="+log)...)
	cmd.Env, cmd.Dir = append(os.Environ(), m.env...), filepath.Dir(m.log)
	out, _ := cmd.CombinedOutput()
	text, _ := os.ReadFile(log)
	for line := range strings.Lines(string(out) + string(text)) {
		if _, position, found := strings.Cut(line, "Recovered position: "); found {
			position, _, _ = strings.Cut(strings.TrimSpace(position), ",")
			return position, nil
		}
	}
	return "", fmt.Errorf("wsrep-recover tells no position: %s%s", out, text)
}

// settled: it is part of the component that has the majority, and has caught up.
func (g *galera) settled(ctx context.Context, i int) error {
	state, err := g.list[i].ask(ctx, "SELECT GROUP_CONCAT(VARIABLE_VALUE ORDER BY VARIABLE_NAME SEPARATOR ' ') FROM information_schema.GLOBAL_STATUS WHERE VARIABLE_NAME IN ('WSREP_CLUSTER_STATUS','WSREP_LOCAL_STATE_COMMENT','WSREP_READY')")
	if err == nil && state != "Primary Synced ON" {
		err = fmt.Errorf("node %d is %s", i, state)
	}
	return err
}

// serves: every node that takes part takes writes.
func (g *galera) serves(ctx context.Context, i int) error { return g.settled(ctx, i) }
