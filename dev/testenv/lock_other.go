//go:build !unix

package testenv

import "errors"

var errNoLock = errors.New("server programs in a cache need Unix")

func lockFile(string) (func(), error)    { return nil, errNoLock }
func tryLockFile(string) (func(), error) { return nil, errNoLock }
