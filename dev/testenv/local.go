package testenv

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// startLocal runs a server program of this machine or of the cache.
func startLocal(ctx context.Context, kind Kind, o order) (*Server, error) {
	if runtime.GOOS != "linux" {
		return nil, fmt.Errorf("%w: local servers need Linux", ErrUnavailable)
	}
	p, err := findProgram(kind)
	if err != nil {
		return nil, err
	}
	if err := p.prepare(o); err != nil {
		return nil, err
	}
	for try := 1; ; try++ {
		s, err := launch(ctx, kind, p, o)
		if err == nil || try == 3 || !strings.Contains(strings.ToLower(err.Error()), "address already in use") {
			return s, err
		}
	}
}

// prepare says what the program must load first.
func (p *program) prepare(o order) error {
	slow, env, err := slowSyncLibrary()
	if err != nil {
		return err
	}
	if slow != "" {
		p.preload, p.env = append(p.preload, slow), append(p.env, env...)
	}
	if o.trouble {
		library, err := troubleLibrary()
		if err != nil {
			return err
		}
		p.preload = append(p.preload, library)
	}
	if len(p.preload) > 0 {
		p.env = append(p.env, "LD_PRELOAD="+strings.Join(p.preload, ":"))
	}
	return nil
}

// startPackages fetches the server program and runs it.
func startPackages(ctx context.Context, kind Kind, o order) (*Server, error) {
	if err := Provision(ctx, os.Stderr, kind); err != nil {
		return nil, err
	}
	s, err := startLocal(ctx, kind, o)
	if s != nil {
		s.source = Packages
	}
	return s, err
}

// launch starts the processes of one server on free ports and a fresh data folder.
func launch(ctx context.Context, kind Kind, p program, o order) (*Server, error) {
	dir, remove, err := dataFolder()
	if err != nil {
		return nil, err
	}
	s := &Server{kind: kind, source: Local, cleanup: remove}
	for i := range kind.members() {
		n, err := newLocalNode(kind, p, filepath.Join(dir, fmt.Sprint(i)), o)
		if err != nil {
			return nil, errors.Join(err, s.Close())
		}
		s.nodes = append(s.nodes, n)
	}
	if kind.Clustered() {
		err = s.cluster(p, dir)
	} else {
		s.address()
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	s, err = s.begin(ctx)
	if err != nil {
		return s, err
	}
	for _, n := range s.nodes {
		for _, library := range p.preload {
			if !n.(*localNode).p.maps(library) {
				return nil, errors.Join(fmt.Errorf("%s did not load %s, as a program cannot that is linked statically or has more rights than its starter",
					p.path, library), s.Close())
			}
		}
	}
	return s, nil
}

// newLocalNode makes the data folder of a server process, on a port of its own. It is not started yet.
func newLocalNode(kind Kind, p program, dir string, o order) (*localNode, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	n := &localNode{program: p.path, env: slices.Clone(p.env), port: port, dir: dir, log: dir + ".log"}
	n.args = append(n.args, p.args...)
	if kind.isMongo() {
		err = os.Mkdir(n.dir, 0o750)
		n.args = append(n.args, mongodArgs(kind, n.dir, port)...)
	} else {
		err = fillDataDir(kind, p, n.dir)
		n.args = append(n.args, mysqldArgs(n.dir, port)...)
	}
	if err != nil {
		return nil, err
	}
	n.args = append(n.args, o.args...)
	if o.trouble {
		n.trouble = n.dir + ".trouble"
		n.env = append(n.env, "ROWLOCK_TROUBLE="+n.trouble)
		err = troubleFile(n.trouble)
	}
	return n, err
}

// localNode is a server process.
type localNode struct {
	program string
	args    []string
	env     []string // beside this process's
	port    int
	peer    int      // the port at which the other members reach it; 0: port
	once    []string // arguments for the next start only
	dir     string   // its data
	log     string
	trouble string // the file that its clock and its disk obey; empty: the machine's

	p      *process
	paused bool
}

func (n *localNode) addr() string { return fmt.Sprintf("127.0.0.1:%d", n.port) }

func (n *localNode) start() (err error) {
	n.paused = false
	args := append(slices.Clone(n.args), n.once...)
	n.once = nil
	n.p, err = startProcess(n.log, n.program, args, n.env)
	return err
}

func (n *localNode) pause() error {
	if n.p == nil {
		return errors.New("it is not running")
	}
	n.paused = true
	return n.p.pause()
}

func (n *localNode) resume() error {
	if n.p == nil {
		return errors.New("it is not running")
	}
	n.paused = false
	return n.p.resume()
}

func (n *localNode) kill() error {
	if n.p == nil {
		return nil
	}
	err := n.p.kill()
	n.p, n.paused = nil, false
	return err
}

func (n *localNode) remove() error { return os.RemoveAll(n.dir) }
func (n *localNode) up() bool      { return n.p != nil && !n.paused }

func (n *localNode) gone() error {
	select {
	case <-n.p.done:
		return fmt.Errorf("the server ended by itself: %v\n%s", n.p.err, tail(n.log))
	default:
		return nil
	}
}

// tail is the end of a log, for an error message.
func tail(file string) string {
	text, _ := os.ReadFile(file)
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(lines[max(0, len(lines)-20):], "\n")
}
