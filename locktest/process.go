package locktest

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

// process is a child of the test: this test binary, run by Main.
type process struct {
	t     testing.TB
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines chan string // closed at the end of its output
	errs  bytes.Buffer
	wait  sync.Once
}

// start starts a child. The end of the test kills it if it still runs.
func (e *env) start(t testing.TB, j job) *process {
	t.Helper()
	j.Config = e.Config
	text, err := json.Marshal(j)
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := &process{t: t, cmd: exec.Command(program), lines: make(chan string, 1024)}
	p.cmd.Env = append(os.Environ(), jobVariable+"="+string(text))
	p.cmd.Stderr = &p.errs
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatalf("start a child: %v", err)
	}
	t.Cleanup(func() { p.kill() })
	go func() {
		defer close(p.lines)
		for scan := bufio.NewScanner(out); scan.Scan(); {
			p.lines <- scan.Text()
		}
	}()
	return p
}

// expect reads the child's next line, which must begin with word, and gives the rest.
func (p *process) expect(word string) string {
	p.t.Helper()
	first, rest, _ := strings.Cut(p.next(), " ")
	if first != word {
		p.t.Fatalf("a child said %q, want %q", first+" "+rest, word)
	}
	return rest
}

// next reads the child's next line.
func (p *process) next() string {
	p.t.Helper()
	select {
	case line, more := <-p.lines:
		if !more {
			p.kill() // waits, so that errs is complete
			p.t.Fatalf("a child ended early\n%s", &p.errs)
		}
		if strings.HasPrefix(line, "error ") {
			p.t.Fatalf("a child failed: %s", line)
		}
		return line
	case <-time.After(patience(p.t)):
		p.t.Fatal("a child says nothing")
	}
	return ""
}

// held reads the token of a child that holds.
func (p *process) held() (token int64) {
	p.t.Helper()
	if _, err := fmt.Sscan(p.expect("held"), &token); err != nil {
		p.t.Fatal(err)
	}
	return token
}

// tell writes a line to the child. One that has ended, because it lost its lease, has said so: next reads it.
func (p *process) tell(line string) {
	p.t.Helper()
	if _, err := fmt.Fprintln(p.in, line); err != nil {
		p.t.Logf("tell a child %q: %v", line, err)
	}
}

// kill ends the child without warning, frozen or not, and waits until it is gone.
func (p *process) kill() {
	p.wait.Do(func() {
		_ = p.cmd.Process.Kill()
		for range p.lines { // its output must be read before Wait
		}
		_ = p.cmd.Wait()
		_ = p.in.Close()
	})
}
