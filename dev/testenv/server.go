package testenv

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Server is a running database server, or a replica set of them. Its methods may be called by several goroutines at
// once; the faults are carried out one after the other.
//
// Pause, Resume, Kill and Restart act on the named members (0 to Members-1), or on all when none is named.
type Server struct {
	kind    Kind
	source  Mode
	dsn     string
	version string

	mu      sync.Mutex
	nodes   []node
	ready   func(ctx context.Context, up []node) error // waits until the nodes that are up can be used
	members *members                                   // of a cluster; nil: it is none
	cleanup func() error                               // after the last node is gone; may be nil
	closed  bool
}

// node is one server process or container.
type node interface {
	addr() string
	pause() error  // freezes it: connections stay open, nothing answers
	resume() error // undoes pause; no effect on one that is not paused
	kill() error   // ends it at once, paused or not, and waits until it is gone; nil if it is gone already
	start() error  // starts it, after kill again on the same port and data
	remove() error // after kill: removes its data
	up() bool      // started, and neither killed nor paused
	gone() error   // why it ended although nobody killed it; nil while it runs
}

// startTimeout bounds the wait for a server to become ready when the caller's context does not.
const startTimeout = 60 * time.Second

// errShared is the answer to a fault on a server that was found running.
var errShared = errors.New("testenv: this server belongs to somebody else: it is not paused or killed")

func (s *Server) Kind() Kind      { return s.kind }
func (s *Server) Source() Mode    { return s.source }  // how it was come by; Packages only right after the fetch
func (s *Server) Version() string { return s.version } // as the server states it
func (s *Server) Members() int    { return s.kind.members() }

// DSN is the address for go-sql-driver (root user, database "test"), or a mongodb URI. It stays the same for the
// server's life.
func (s *Server) DSN() string { return s.dsn }

// Pause freezes the server and returns when it no longer answers: a connection stays open and hangs.
func (s *Server) Pause(members ...int) error { return s.each("pause", members, node.pause) }

// Resume lets a paused server go on.
func (s *Server) Resume(members ...int) error { return s.each("resume", members, node.resume) }

// Kill ends the server at once, as a power cut of its process does, and returns when it is gone.
func (s *Server) Kill(members ...int) error { return s.each("kill", members, node.kill) }

// Restart starts a killed server again, on the same port and data, and returns when it can be used. A server that
// still runs is killed first. Members of a cluster have to be named, and are brought back as Rejoin does.
func (s *Server) Restart(ctx context.Context, members ...int) error {
	if s.kind.Clustered() {
		return s.restartMembers(ctx, members)
	}
	err := s.each("restart", members, func(n node) error {
		if err := n.kill(); err != nil {
			return err
		}
		return n.start()
	})
	if err != nil {
		return err
	}
	if err := s.waitReady(ctx); err != nil {
		return fmt.Errorf("testenv: restart %s: %w", s.kind, err)
	}
	return nil
}

// waitReady waits until what is up of the server can be used.
func (s *Server) waitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	var up []node
	for _, n := range s.nodes {
		if n.up() {
			up = append(up, n)
		}
	}
	return s.ready(ctx, up)
}

// Close ends the server and removes all of it. It is safe to call twice. A server that was found running is left alone.
func (s *Server) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	if s.members != nil {
		s.members.close()
	}
	var errs []error
	for _, n := range s.nodes {
		errs = append(errs, n.kill(), n.remove())
	}
	if s.cleanup != nil {
		errs = append(errs, s.cleanup())
	}
	return errors.Join(errs...)
}

// each does one thing to the named members, or to all.
func (s *Server) each(verb string, members []int, do func(node) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return fmt.Errorf("testenv: %s %s: server is closed", verb, s.kind)
	}
	if s.source == Env {
		return errShared
	}
	nodes := s.nodes
	if len(members) > 0 {
		nodes = nil
	}
	for _, i := range members {
		if i < 0 || i >= len(s.nodes) {
			return fmt.Errorf("testenv: %s %s: no member %d, it has %d", verb, s.kind, i, len(s.nodes))
		}
		nodes = append(nodes, s.nodes[i])
	}
	for _, n := range nodes {
		if err := do(n); err != nil {
			return fmt.Errorf("testenv: %s %s: %w", verb, s.kind, err)
		}
	}
	return nil
}

// begin starts the nodes, waits until the server is ready and learns its version. On failure it closes the server.
func (s *Server) begin(ctx context.Context) (*Server, error) {
	var err error
	if s.members != nil {
		err = s.form(ctx)
	} else {
		for _, n := range s.nodes {
			if err == nil {
				err = n.start()
			}
		}
		if err == nil {
			err = s.waitReady(ctx)
		}
	}
	if err == nil {
		s.version, err = versionOf(ctx, s.kind, s.dsn)
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// useRunning is the server that a variable names.
func useRunning(ctx context.Context, kind Kind, dsn string) (*Server, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	version, err := versionOf(ctx, kind, dsn)
	if err != nil {
		return nil, fmt.Errorf("testenv: the %s server that %s names does not answer: %w", kind, kind.Variable(), err)
	}
	return &Server{kind: kind, source: Env, dsn: dsn, version: version}, nil
}
