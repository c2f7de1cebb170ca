// Package lab has the servers that the benchmark runs on: the databases that the
// environment names, a replica set of three, and the servers of the peers.
package lab

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/rowlock/rowlock/dev/bench/internal/side"
)

// The databases, by their names in flags.
const (
	MySQL   = "mysql"
	MariaDB = "mariadb"
	Mongo   = "mongo"
	Mongo3  = "mongo3"

	Own = "own" // the server of locks that the caller registered: whatever they use
)

// Databases lists them in the order of reports.
var Databases = []string{MySQL, MariaDB, Mongo, Mongo3}

// Variables name the environment variables that name running servers, the same as
// those of the tests.
var Variables = map[string]string{
	MySQL: "ROWLOCK_TEST_MYSQL_DSN", MariaDB: "ROWLOCK_TEST_MARIADB_DSN", Mongo: "ROWLOCK_TEST_MONGO_URI",
}

// Server is a server with a database of this run.
type Server struct {
	Name       string // in reports
	Version    string // product and version
	Durability string // what an acknowledged write has survived, and the settings that say so
	Kinds      []string
	MaxConns   int // connections it allows; 0: enough

	spec   side.Spec
	sql    bool
	peer   bool
	closes []func() error
}

// Spec is how to open a side of this server for a number of callers.
func (s *Server) Spec(kind string, callers int) side.Spec {
	spec := s.spec
	spec.Kind, spec.Callers = kind, callers
	return spec
}

// Rowlock lists the library's strategies that run here, Guarded excepted.
func (s *Server) Rowlock() []string {
	if s.peer {
		return nil
	}
	if s.sql {
		return []string{side.Version, side.Unique, side.ForUpdate}
	}
	return []string{side.Mongo}
}

// SQL tells MySQL and MariaDB from MongoDB.
func (s *Server) SQL() bool { return s.sql }

// Close removes the run's database, and the server if the lab started it.
func (s *Server) Close() error {
	var errs []error
	for _, f := range slices.Backward(s.closes) {
		errs = append(errs, f())
	}
	return errors.Join(errs...)
}

// Absent is a server that could not be had.
type Absent struct{ Name, Reason string }

// Lab is every server of a run.
type Lab struct {
	Servers []*Server // databases
	Peers   []*Server
	Absent  []Absent
}

// Open finds and starts the databases that are asked for, and the peers. A peer
// that cannot be had is noted with the reason; a database is an error.
func Open(ctx context.Context, databases []string, peers bool, say func(string)) (l *Lab, err error) {
	l = &Lab{}
	defer func() {
		if err != nil {
			err = errors.Join(err, l.Close())
		}
	}()
	for _, name := range databases {
		if name == Mongo3 && slices.ContainsFunc(l.Servers, func(s *Server) bool { return s.Name == Mongo3 }) {
			continue // the environment names one
		}
		s, absent, err := openDatabase(ctx, name)
		if err != nil {
			return l, fmt.Errorf("%s: %w", name, err)
		}
		if absent != "" {
			l.Absent = append(l.Absent, Absent{name, absent})
			say(name + ": left out: " + absent)
			continue
		}
		say(s.Name + ": " + s.Version)
		l.Servers = append(l.Servers, s)
	}
	if len(l.Servers) == 0 {
		return l, errors.New("no database server: run `make bench`, which starts them, or name yours in ROWLOCK_TEST_MYSQL_DSN, ROWLOCK_TEST_MARIADB_DSN or ROWLOCK_TEST_MONGO_URI")
	}
	if kinds := side.Registered(); len(kinds) > 0 {
		l.Peers = append(l.Peers, &Server{Name: Own, Version: "a lock of your own", Durability: "not known", Kinds: kinds, peer: true})
	}
	if !peers {
		return l, nil
	}
	for _, p := range peerServers {
		s, err := p.open(ctx, say)
		if ctx.Err() != nil {
			return l, ctx.Err()
		}
		if err != nil {
			l.Absent = append(l.Absent, Absent{p.name, firstLine(err)})
			say(p.name + ": left out: " + err.Error())
			continue
		}
		say(s.Name + ": " + s.Version)
		l.Peers = append(l.Peers, s)
	}
	return l, nil
}

func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}

// All is every server, the databases first.
func (l *Lab) All() []*Server { return slices.Concat(l.Servers, l.Peers) }

// Close closes every server.
func (l *Lab) Close() error {
	var errs []error
	for _, s := range l.All() {
		errs = append(errs, s.Close())
	}
	return errors.Join(errs...)
}

// space is a name for the run's database.
func space() string { return "rowlock_bench_" + strings.ToLower(rand.Text()[:8]) }
