package testenv

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// process is a child that the kernel kills when this process dies, however it dies.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended; err is set before
	err  error
}

// startProcess runs a program in a process group of its own, so that Ctrl-C in a terminal does not reach it before its
// users are done. Output goes to the file log. env is added to the environment of this process.
func startProcess(log, program string, args, env []string) (*process, error) {
	p := &process{done: make(chan struct{})}
	started := make(chan error, 1)
	go func() {
		// Pdeathsig fires when the forking thread ends, not the process: so this goroutine keeps its thread.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		out, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
		if err != nil {
			started <- err
			return
		}
		defer out.Close()
		p.cmd = exec.Command(program, args...)
		p.cmd.Env = append(os.Environ(), env...)
		p.cmd.Dir = filepath.Dir(log)
		p.cmd.Stdout, p.cmd.Stderr = out, out
		p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
		err = p.cmd.Start()
		started <- err
		if err != nil {
			return
		}
		p.err = p.cmd.Wait()
		close(p.done)
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// pause stops every thread. SIGSTOP alone is not enough: it takes effect thread by thread, and a request sent right
// after it may still be answered.
func (p *process) pause() error {
	if err := p.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if p.stopped() {
			return nil
		}
	}
	return errors.New("process does not stop")
}

// stopped reads the state of all threads: the letter after the program's name in parentheses.
func (p *process) stopped() bool {
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", p.cmd.Process.Pid))
	for _, file := range threads {
		stat, err := os.ReadFile(file)
		if err != nil {
			continue // this thread has ended
		}
		i := strings.LastIndex(string(stat), ") ")
		if i < 0 || stat[i+2] != 'T' {
			return false
		}
	}
	return len(threads) > 0
}

func (p *process) resume() error { return p.cmd.Process.Signal(syscall.SIGCONT) }

// maps reports whether the file is in its memory.
func (p *process) maps(file string) bool {
	maps, _ := os.ReadFile(fmt.Sprintf("/proc/%d/maps", p.cmd.Process.Pid))
	return strings.Contains(string(maps), file)
}

// kill ends it and returns when it is gone. It also ends a paused process.
func (p *process) kill() error {
	err := p.cmd.Process.Signal(syscall.SIGKILL)
	if err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-p.done
	return nil
}
