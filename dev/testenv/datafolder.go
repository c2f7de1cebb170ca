package testenv

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
)

// dataPrefix begins the names of the folders that servers keep their data in.
const dataPrefix = "rowlock-testenv-"

// dataFolder makes a folder for a server's data, and a way to remove it. Its lock file lies beside it and is held as
// long as this process lives: so the folder of a process that was killed outright can be told, and the next one that
// needs a folder removes it.
func dataFolder() (dir string, remove func() error, err error) {
	parent, err := filepath.Abs(dataParent()) // mysqld takes a relative path relative to its program's
	if err != nil {
		return "", nil, err
	}
	sweep(parent)
	dir, err = os.MkdirTemp(parent, dataPrefix)
	if err != nil {
		return "", nil, err
	}
	unlock, err := lockFile(dir + ".lock")
	if err != nil {
		return "", nil, errors.Join(err, os.RemoveAll(dir))
	}
	remove = func() error {
		err := errors.Join(os.RemoveAll(dir), os.Remove(dir+".lock"))
		unlock()
		return err
	}
	return dir, remove, nil
}

func dataParent() string {
	if dir := os.Getenv("ROWLOCK_TEST_DATA"); dir != "" {
		return dir
	}
	return os.TempDir()
}

// sweep removes what killed processes left. A folder without a lock file is just being made, or not ours.
func sweep(parent string) {
	locks, _ := filepath.Glob(filepath.Join(parent, dataPrefix+"*.lock"))
	for _, lock := range locks {
		unlock, err := tryLockFile(lock)
		if err != nil {
			continue // its process lives
		}
		if info, err := os.Stat(lock); err == nil && info.Size() > 0 {
			_ = os.RemoveAll(strings.TrimSuffix(lock, ".lock"))
			_ = os.Remove(lock)
		}
		unlock()
	}
}
