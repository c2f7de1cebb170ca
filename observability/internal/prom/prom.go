// Package prom runs a real Prometheus and asks it.
//
// Its programs are those in PATH, or are fetched: on Debian (x86_64) by prometheus.sh, once, into the cache of the test
// servers.
package prom

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

//go:embed prometheus.sh
var fetch string

// ErrNone: there is no Prometheus, and none can be fetched.
var ErrNone = errors.New("no Prometheus: install one")

// Find finds a program of Prometheus, or fetches it; what it does it says on log.
func Find(ctx context.Context, name string, log io.Writer) (path string, err error) {
	if path, err := exec.LookPath(name); err == nil {
		return path, nil
	}
	cache := os.Getenv("ROWLOCK_TEST_CACHE")
	if cache == "" {
		user, err := os.UserCacheDir()
		if err != nil {
			return "", fmt.Errorf("%w: %w", ErrNone, err)
		}
		cache = filepath.Join(user, "rowlock-testenv")
	}
	dir := filepath.Join(cache, "prometheus")
	path = filepath.Join(dir, "usr", "bin", name)
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	if _, err := exec.LookPath("apt-get"); err != nil || runtime.GOARCH != "amd64" {
		return "", fmt.Errorf("%w: %s is not on PATH, and packages are for Debian on x86_64", ErrNone, name)
	}
	cmd := exec.CommandContext(ctx, "bash", "-s", dir)
	cmd.Stdin, cmd.Stderr = strings.NewReader(fetch), log
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("prometheus.sh: %w", err)
	}
	return path, nil
}

// Server is a Prometheus that runs.
type Server struct {
	address string
	process *exec.Cmd
	log     string // a file
}

// Start starts the program with a configuration and its data in dir, and waits until it is ready. The caller must Close
// it.
func Start(ctx context.Context, program, config, dir string) (*Server, error) {
	file := filepath.Join(dir, "prometheus.yml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0") // Prometheus cannot choose a port itself
	if err != nil {
		return nil, err
	}
	s := &Server{address: l.Addr().String(), log: filepath.Join(dir, "prometheus.log")}
	l.Close()
	log, err := os.Create(s.log)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	s.process = exec.Command(program, "--config.file="+file, "--storage.tsdb.path="+filepath.Join(dir, "data"),
		"--web.listen-address="+s.address, "--log.level=warn")
	s.process.Stdout, s.process.Stderr = log, log
	if err := s.process.Start(); err != nil {
		return nil, err
	}
	for {
		err := s.ready(ctx)
		if err == nil {
			return s, nil
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			s.Close()
			return nil, fmt.Errorf("start Prometheus: %w\n%s", err, s.Log())
		}
	}
}

func (s *Server) ready(ctx context.Context) error {
	r, err := get(ctx, "http://"+s.address+"/-/ready")
	if err != nil {
		return err
	}
	r.Body.Close()
	if r.StatusCode != http.StatusOK {
		return errors.New(r.Status)
	}
	return nil
}

// Close ends it.
func (s *Server) Close() {
	_ = s.process.Process.Kill()
	_ = s.process.Wait()
}

// Log is what it has written.
func (s *Server) Log() string {
	text, err := os.ReadFile(s.log)
	if err != nil {
		return err.Error()
	}
	return string(text)
}
