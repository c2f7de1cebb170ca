package testenv

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// haproxy is a real HAProxy before a cluster. It asks an agent beside each member, over HTTP, whether that takes writes,
// leads new connections to the one that does, and ends those to one that does no more.
type haproxy struct {
	process *process
	agents  []*http.Server
	addr    string
}

// HAProxy starts a real HAProxy before a cluster, which ends with the server, and gives its address. The program comes
// from the cache or from PATH; on Debian it is fetched.
func (s *Server) HAProxy(ctx context.Context) (dsn string, err error) {
	if s.members == nil {
		return "", errNoCluster
	}
	path, args, err := haproxyProgram(ctx)
	if err != nil {
		return "", fmt.Errorf("testenv: HAProxy before %s: %w", s.kind, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return "", fmt.Errorf("testenv: HAProxy before %s: server is closed", s.kind)
	}
	h, err := s.members.haproxy(ctx, path, args)
	if err != nil {
		return "", fmt.Errorf("testenv: HAProxy before %s: %w", s.kind, err)
	}
	s.members.proxies = append(s.members.proxies, h)
	return dsnAt(h.addr), nil
}

// haproxyProgram finds HAProxy, or fetches it.
func haproxyProgram(ctx context.Context) (path string, args []string, err error) {
	const name = "haproxy"
	cache, err := cacheDir()
	if err != nil {
		return "", nil, err
	}
	inCache := func() (string, []string, error) { return unpackedProgram(filepath.Join(cache, name), "sbin/haproxy") }
	if path, args, err = inCache(); err == nil {
		return path, args, nil
	}
	if path, err = exec.LookPath(name); err == nil {
		return path, nil, nil
	}
	if err := provision(ctx, os.Stderr, name); err != nil {
		return "", nil, err
	}
	return inCache()
}

func (m *members) haproxy(ctx context.Context, path string, args []string) (h *haproxy, err error) {
	h = &haproxy{}
	defer func() {
		if err != nil {
			h.close()
		}
	}()
	port, err := freePort()
	if err != nil {
		return h, err
	}
	h.addr = fmt.Sprintf("127.0.0.1:%d", port)
	var text strings.Builder
	fmt.Fprintf(&text, `global
  maxconn 2000
defaults
  mode tcp
  timeout connect 2s
  timeout client 1h
  timeout server 1h
listen mysql
  bind %s
  option httpchk GET /primary
  default-server inter 300ms fastinter 100ms fall 2 rise 1 on-marked-down shutdown-sessions
`, h.addr)
	for i, one := range m.list {
		agent, err := m.agent(i)
		if err != nil {
			return h, err
		}
		h.agents = append(h.agents, agent)
		backup := ""
		if _, all := m.way.(*galera); all { // take writes: one at a time, and connections to a backup end when an earlier one comes back
			backup = " on-marked-up shutdown-backup-sessions"
			if i > 0 {
				backup += " backup"
			}
		}
		fmt.Fprintf(&text, "  server db%d %s check addr 127.0.0.1 port %s%s\n", i+1, one.addr(), portOf(agent.Addr), backup)
	}
	dir := filepath.Dir(m.list[0].log)
	config := filepath.Join(dir, fmt.Sprintf("haproxy-%d.cfg", port))
	if err := os.WriteFile(config, []byte(text.String()), 0o644); err != nil {
		return h, err
	}
	log := config + ".log"
	if h.process, err = startProcess(log, path, append(args, "-db", "-f", config), nil); err != nil {
		return h, err
	}
	for {
		probe, err := net.DialTimeout("tcp", h.addr, time.Second)
		if err == nil {
			_ = probe.Close()
			return h, nil
		}
		gone := func() error {
			select {
			case <-h.process.done:
				return fmt.Errorf("it ended by itself: %v\n%s", h.process.err, tail(log))
			default:
				return nil
			}
		}
		if err := pollPause(ctx, gone); err != nil {
			return h, err
		}
	}
}

// agent answers 200 as long as a member takes writes, by what that says of itself.
func (m *members) agent(i int) (*http.Server, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	listener, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port})
	if err != nil {
		return nil, err
	}
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), lookTime)
		defer cancel()
		if err := m.way.serves(ctx, i); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		}
	})
	agent := &http.Server{Addr: listener.Addr().String(), Handler: handler, ReadHeaderTimeout: time.Second}
	go func() { _ = agent.Serve(listener) }()
	return agent, nil
}

func portOf(addr string) string {
	_, port, _ := net.SplitHostPort(addr)
	return port
}

func (h *haproxy) close() {
	if h.process != nil {
		_ = h.process.kill()
	}
	for _, agent := range h.agents {
		_ = agent.Close()
	}
}

// errReadOnly: a member that takes no writes.
var errReadOnly = errors.New("it takes no writes")
