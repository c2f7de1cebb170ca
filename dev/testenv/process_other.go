//go:build !linux

package testenv

import "errors"

// process exists on Linux only: elsewhere nothing would end the servers of a test that was killed. Docker is the way.
type process struct {
	done chan struct{}
	err  error
}

var errNoProcess = errors.New("local servers need Linux")

func startProcess(string, string, []string, []string) (*process, error) { return nil, errNoProcess }
func (*process) pause() error                                           { return errNoProcess }
func (*process) resume() error                                          { return errNoProcess }
func (*process) maps(string) bool                                       { return false }
func (*process) kill() error                                            { return errNoProcess }
