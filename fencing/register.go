package fencing

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"github.com/rowlock/rowlock/driver"
)

// Register remembers the largest token of each resource, for a server that gets
// tokens with its requests. One process decides over a resource: two with a Register
// each would not know of each other. A Register is safe for concurrent use. The
// zero value is ready, and forgets with its process: a server that starts again
// then takes any token. OpenRegister makes one that does not.
//
// It grows by a few words a resource and is never cleaned: a resource that it has
// forgotten takes any token.
type Register struct {
	mu        sync.Mutex
	resources map[string]*resource
	file      *os.File // nil: in memory only
	broken    error
}

type resource struct {
	sync.Mutex
	newest int64
}

// Do calls write if no larger token of the resource was seen, and remembers this
// one. Calls for one resource run one after the other, so a newer token that comes
// while write runs waits for its end: write should finish within seconds, and Do
// must not be called from it for the same resource. The same token may come again.
//
// Errors: ErrStale, with both tokens in the text, and write was not called;
// rowlock.ErrInvalid: the token is not above 0; one from the file, and write was
// not called; otherwise write's own. The token is remembered whatever write returns.
func (r *Register) Do(name string, token int64, write func() error) error {
	if token <= 0 {
		return fmt.Errorf("fencing: %w: token %d: tokens are above 0", driver.ErrInvalid, token)
	}
	res := r.resource(name)
	res.Lock()
	defer res.Unlock()
	if token < res.newest {
		return stale(token, res.newest)
	}
	if token > res.newest {
		if err := r.keep(name, token); err != nil {
			return err
		}
		res.newest = token
	}
	return write()
}

// Newest is the largest token of the resource that was seen; 0: none.
func (r *Register) Newest(name string) int64 {
	res := r.resource(name)
	res.Lock()
	defer res.Unlock()
	return res.newest
}

func (r *Register) resource(name string) *resource {
	r.mu.Lock()
	defer r.mu.Unlock()
	res := r.resources[name]
	if res == nil {
		if r.resources == nil {
			r.resources = make(map[string]*resource)
		}
		res = new(resource)
		r.resources[name] = res
	}
	return res
}

// OpenRegister makes a Register that keeps its tokens in a file too, which it makes
// if there is none. A token is on the disk before its first write runs, so each new
// token costs a sync, and each further write with it nothing. The file belongs to
// one process at a time, which is not checked. Close it at the end.
func OpenRegister(path string) (*Register, error) {
	r := &Register{resources: make(map[string]*resource)}
	old, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("fencing: %w", err)
	}
	for line := range bytes.Lines(old) {
		// A line that a crash cut off has no closing quote. Its write never ran.
		var token int64
		var name string
		if _, err := fmt.Sscanf(string(line), "%d %q\n", &token, &name); err == nil {
			res := r.resource(name)
			res.newest = max(res.newest, token)
		}
	}
	// Written anew: shorter, and without a line that was cut off.
	var lines []byte
	for name, res := range r.resources {
		lines = fmt.Appendf(lines, "%d %q\n", res.newest, name)
	}
	if r.file, err = replace(path, lines); err != nil {
		return nil, fmt.Errorf("fencing: %w", err)
	}
	return r, nil
}

// replace puts a file with that content in the place of the old one, whole or not
// at all, and opens it for appending.
func replace(path string, content []byte) (*os.File, error) {
	next := path + ".new"
	f, err := os.Create(next)
	if err != nil {
		return nil, err
	}
	_, err = f.Write(content)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	if err := os.Rename(next, path); err != nil {
		return nil, err
	}
	// The directory too, or a crash could bring the old file back. Not every system
	// lets a directory be synced.
	if dir, err := os.Open(filepath.Dir(path)); err == nil {
		_ = dir.Sync()
		_ = dir.Close()
	}
	return os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
}

// keep writes a token to the file. After a failure nothing more is written: what
// would follow a line that was cut off could not be read.
func (r *Register) keep(name string, token int64) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.file == nil || r.broken != nil {
		return r.broken
	}
	_, err := r.file.Write(fmt.Appendf(nil, "%d %q\n", token, name))
	if err == nil {
		err = r.file.Sync()
	}
	if err != nil {
		r.broken = fmt.Errorf("fencing: the register can keep no more tokens: %w", err)
	}
	return r.broken
}

// Close closes the file. Do fails afterwards where it would have to write.
func (r *Register) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.file == nil || errors.Is(r.broken, driver.ErrClosed) {
		return nil
	}
	r.broken = fmt.Errorf("fencing: %w: the register was closed", driver.ErrClosed)
	return r.file.Close()
}
