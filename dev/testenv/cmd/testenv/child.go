package main

import (
	"fmt"
	"os"
	"os/exec"
)

// runChild runs the command on our standard streams and returns its exit code: 128 + n if signal n ended it. Signals
// that we get are passed on; the command decides when it ends.
func runChild(command, env []string, signals <-chan os.Signal) (int, error) {
	c := exec.Command(command[0], command[1:]...)
	c.Env = env
	c.Stdin, c.Stdout, c.Stderr = os.Stdin, os.Stdout, os.Stderr
	pass, sweep := ownGroup(c)
	if err := c.Start(); err != nil {
		return 0, fmt.Errorf("testenv: %w", err)
	}
	ended := make(chan struct{})
	go func() {
		for {
			select {
			case s := <-signals:
				pass(s)
			case <-ended:
				return
			}
		}
	}()
	err := c.Wait()
	close(ended)
	sweep()
	if c.ProcessState == nil {
		return 0, fmt.Errorf("testenv: %w", err)
	}
	return exitCodeOf(c.ProcessState), nil
}
