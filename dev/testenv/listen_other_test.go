//go:build !linux

package testenv_test

import "testing"

// onlyLoopback needs Linux, as local servers do.
func onlyLoopback(*testing.T) {}
