//go:build unix

package guard

import (
	"bytes"
	"errors"
	"io"
	"os"
	"strings"
	"syscall"
)

// forkExec starts a program as execvp(3) does: a script without #! is run by /bin/sh.
func forkExec(path string, args []string, attributes *syscall.ProcAttr) (pid int, err error) {
	pid, err = syscall.ForkExec(path, args, attributes)
	if !errors.Is(err, syscall.ENOEXEC) || !isText(path) {
		return pid, err
	}
	if !strings.Contains(path, "/") {
		path = "./" + path // not an option of sh
	}
	return syscall.ForkExec("/bin/sh", append([]string{"/bin/sh", path}, args[1:]...), attributes)
}

// isText reports whether a file may be a script, and not a program for another kind of machine: as shells do, by its first line.
func isText(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	begin := make([]byte, 256)
	n, err := io.ReadFull(f, begin)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		return false
	}
	line, _, _ := bytes.Cut(begin[:n], []byte("\n"))
	return !bytes.Contains(line, []byte{0}) // an empty file is an empty script
}
