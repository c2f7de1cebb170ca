package lab

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"time"
)

// serve starts a server by the command `testenv serve kind`, and returns its
// address and how to end it.
func serve(ctx context.Context, program, kind string) (address string, stop func() error, err error) {
	cmd := exec.Command(program, "serve", kind) // not by ctx: it ends when its input does, and cleans up
	var log bytes.Buffer
	cmd.Stderr = &log
	in, err := cmd.StdinPipe()
	if err != nil {
		return "", nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return "", nil, err
	}
	if err := cmd.Start(); err != nil {
		return "", nil, err
	}
	stop = func() error {
		_ = in.Close()
		late := time.AfterFunc(30*time.Second, func() { _ = cmd.Process.Kill() })
		defer late.Stop()
		_, _ = io.Copy(io.Discard, out)
		return cmd.Wait()
	}
	stopAtEnd := context.AfterFunc(ctx, func() { _ = in.Close() })
	defer stopAtEnd()
	var hello struct{ DSN string }
	line, err := bufio.NewReader(out).ReadString('\n')
	if err == nil {
		err = json.Unmarshal([]byte(line), &hello)
	}
	if err != nil {
		_ = stop()
		return "", nil, fmt.Errorf("testenv serve %s: %s", kind, strings.TrimSpace(log.String()))
	}
	return hello.DSN, stop, nil
}
