package testserver

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"
)

// Server is a server of the test's own, to be paused and killed. Its methods end the test when they fail, and may be
// called from the test's goroutine only. Members are the nodes of a Mongo3, counted from 0; none named means all.
type Server struct {
	t       testing.TB
	kind    string
	dsn     string
	leaving string
	members []string
	version string

	cmd     *exec.Cmd
	in      io.WriteCloser
	answers chan string // closed at the end of the output
	log     *logBuffer
	close   sync.Once
}

// Start starts a server of the test's own, with extra arguments such as "--read-only" for the server program. It is
// removed at the end of the test. Start skips or fails the test where no server can be started.
func Start(t testing.TB, kind string, args ...string) *Server {
	t.Helper()
	program := os.Getenv("ROWLOCK_TEST_SERVER")
	if program == "" {
		missing(t, "ROWLOCK_TEST_SERVER is not set: run `make test`")
	}
	if os.Getenv("ROWLOCK_TEST_MODE") == "env" {
		t.Skip("needs a server of its own, to pause and kill: ROWLOCK_TEST_MODE=env forbids it")
	}
	line := []string{"serve", kind}
	for _, a := range args {
		line = append(line, "--arg="+a)
	}
	s := &Server{t: t, kind: kind, cmd: exec.Command(program, line...), answers: make(chan string, 1), log: &logBuffer{}}
	s.cmd.Stderr = s.log
	in, err := s.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	s.in = in
	if err := s.cmd.Start(); err != nil {
		t.Fatalf("start a %s server: %v", kind, err)
	}
	t.Cleanup(s.Close)
	go func() {
		defer close(s.answers)
		for scan := bufio.NewScanner(out); scan.Scan(); {
			s.answers <- scan.Text()
		}
	}()
	var hello struct {
		DSN, Version, Leaving string
		Members               []string
	}
	if err := json.Unmarshal([]byte(s.read("start", Patience(t))), &hello); err != nil {
		t.Fatalf("start a %s server: %v", kind, err)
	}
	s.dsn, s.version, s.leaving, s.members = hello.DSN, hello.Version, hello.Leaving, hello.Members
	return s
}

// DSN is the server's address; it stays the same over Kill and Restart.
func (s *Server) DSN() string { return s.dsn }

// Version is what the server says of itself.
func (s *Server) Version() string { return s.version }

// Pause freezes the server: connections stay open, nothing answers.
func (s *Server) Pause(members ...int) { s.t.Helper(); s.do("pause", members) }

// Resume lets a paused server go on.
func (s *Server) Resume(members ...int) { s.t.Helper(); s.do("resume", members) }

// Kill ends the server as kill -9 does, and returns when it is gone.
func (s *Server) Kill(members ...int) { s.t.Helper(); s.do("kill", members) }

// Restart starts a killed server again on the same port and data, and returns when it can be used.
func (s *Server) Restart(members ...int) { s.t.Helper(); s.do("restart", members) }

// Close removes the server. The end of the test does it too; twice is harmless.
func (s *Server) Close() {
	s.close.Do(func() {
		s.t.Helper()
		_ = s.in.Close() // the end of its input tells it to clean up and end
		late := time.AfterFunc(Patience(s.t), func() { _ = s.cmd.Process.Kill() })
		for range s.answers {
		}
		err := s.cmd.Wait()
		late.Stop()
		if err != nil && !s.t.Failed() {
			s.t.Errorf("close the %s server: %v\n%s", s.kind, err, s.log)
		}
	})
}

// do sends one line and waits for "ok".
func (s *Server) do(verb string, members []int) {
	s.t.Helper()
	if answer := s.ask(verb, members); answer != "" {
		s.t.Fatalf("%s the %s server: ok %s\n%s", verb, s.kind, answer, s.log)
	}
}

// ask sends one line, waits for "ok", and gives what comes after it.
func (s *Server) ask(verb string, members []int) string {
	s.t.Helper()
	line := strings.TrimSpace(verb + " " + strings.Trim(fmt.Sprint(members), "[]"))
	if _, err := fmt.Fprintln(s.in, line); err != nil {
		s.t.Fatalf("%s the %s server: %v\n%s", line, s.kind, err, s.log)
	}
	answer := s.read(line, Patience(s.t))
	rest, ok := strings.CutPrefix(answer, "ok")
	if !ok {
		s.t.Fatalf("%s the %s server: %s\n%s", line, s.kind, answer, s.log)
	}
	return strings.TrimSpace(rest)
}

// read returns the next line the server process prints.
func (s *Server) read(verb string, d time.Duration) string {
	s.t.Helper()
	timeout := time.NewTimer(d)
	defer timeout.Stop()
	select {
	case answer, more := <-s.answers:
		if !more {
			s.t.Fatalf("%s the %s server: its process ended\n%s", verb, s.kind, s.log)
		}
		return answer
	case <-timeout.C:
		s.t.Fatalf("%s the %s server: no answer in %v\n%s", verb, s.kind, d, s.log)
	}
	return ""
}

// logBuffer collects what the process writes to standard error.
type logBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}
