package testenv_test

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// onlyLoopback looks, until the end of the test, at what the servers that this process has started listen on, also for a moment only,
// as in a transfer of data between members: 127.0.0.1 or ::1.
func onlyLoopback(t *testing.T) {
	t.Helper()
	done, ended := make(chan struct{}), make(chan struct{})
	t.Cleanup(func() { close(done); <-ended })
	go func() {
		defer close(ended)
		told := make(map[string]bool)
		for {
			for _, l := range listeners() {
				if name := l.program + " " + l.address; !l.loopback && !told[name] {
					told[name] = true
					t.Errorf("%s listens on %s", l.program, l.address)
				}
			}
			select {
			case <-done:
				return
			case <-time.After(20 * time.Millisecond):
			}
		}
	}()
}

// listener is a TCP socket that a child of this process listens on.
type listener struct {
	program, address string
	loopback         bool
}

// loopbacks are 127.0.0.1, 127.0.0.1 as an IPv6 address, and ::1, as /proc/net writes them.
var loopbacks = map[string]bool{"0100007F": true, "0000000000000000FFFF00000100007F": true, "00000000000000000000000001000000": true}

func listeners() (found []listener) {
	sockets := make(map[string]listener) // by the link of a file descriptor
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		file, err := os.Open(table)
		if err != nil {
			continue
		}
		for lines := bufio.NewScanner(file); lines.Scan(); {
			const address, state, inode, listens = 1, 3, 9, "0A"
			fields := strings.Fields(lines.Text())
			if len(fields) <= inode || fields[state] != listens {
				continue
			}
			ip, hex, _ := strings.Cut(fields[address], ":")
			port, _ := strconv.ParseUint(hex, 16, 16)
			sockets["socket:["+fields[inode]+"]"] = listener{address: fmt.Sprintf("%s port %d", ip, port), loopback: loopbacks[ip]}
		}
		_ = file.Close()
	}
	for _, pid := range descendants(os.Getpid()) {
		name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
		for _, file := range files {
			link, _ := os.Readlink(file)
			if l, ok := sockets[link]; ok {
				l.program = fmt.Sprintf("%.120s", strings.ReplaceAll(string(name), "\x00", " "))
				found = append(found, l)
			}
		}
	}
	return found
}

// descendants are the processes that a process has started, and those that they have.
func descendants(of int) (pids []int) {
	children := make(map[int][]int)
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range stats {
		text, _ := os.ReadFile(file)
		_, rest, _ := strings.Cut(string(text), ") ") // behind the program's name: state, parent
		if fields := strings.Fields(rest); len(fields) > 1 {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			parent, _ := strconv.Atoi(fields[1])
			children[parent] = append(children[parent], pid)
		}
	}
	for next := children[of]; len(next) > 0; {
		pids = append(pids, next...)
		var further []int
		for _, pid := range next {
			further = append(further, children[pid]...)
		}
		next = further
	}
	return pids
}
