package lab

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/rowlock/rowlock/dev/bench/internal/side"
)

// peerServer is a server of another lock service, and how to run it.
type peerServer struct {
	name       string
	program    string // its package in the cache, and the command on PATH
	durability string
	kinds      []string
	arguments  func(dir string, port int) ([]string, error)
}

var peerServers = []peerServer{
	{
		name: "redis always", program: "redis-server", kinds: []string{side.Redislock, side.Redsync},
		durability: "appendonly yes, appendfsync always: a reply waits for the disk; one node, no replica",
		arguments:  redisArguments("always"),
	},
	{
		name: "redis everysec", program: "redis-server", kinds: []string{side.Redislock, side.Redsync},
		durability: "appendonly yes, appendfsync everysec: a crash of the machine loses up to a second or two of locks; one node, no replica",
		arguments:  redisArguments("everysec"),
	},
	{
		name: "etcd", program: "etcd", kinds: []string{side.Etcd},
		durability: "the log is synced to disk before a reply; one member, no replica",
		arguments: func(dir string, port int) ([]string, error) {
			peer, err := freePort()
			client, members := fmt.Sprintf("http://127.0.0.1:%d", port), fmt.Sprintf("http://127.0.0.1:%d", peer)
			return []string{"--data-dir", dir, "--listen-client-urls", client, "--advertise-client-urls", client,
				"--listen-peer-urls", members, "--initial-advertise-peer-urls", members,
				"--initial-cluster", "default=" + members, "--logger", "zap", "--log-level", "error"}, err
		},
	},
	{
		name: "zookeeper", program: "zookeeper", kinds: []string{side.ZooKeeper},
		durability: "the transaction log is synced to disk before a reply (forceSync=yes); one member, no replica",
		arguments: func(dir string, port int) ([]string, error) {
			config := filepath.Join(dir, "zoo.cfg")
			text := fmt.Sprintf("tickTime=2000\ndataDir=%s\nclientPort=%d\nclientPortAddress=127.0.0.1\nadmin.enableServer=false\nmaxClientCnxns=0\n", dir, port)
			return []string{"org.apache.zookeeper.server.ZooKeeperServerMain", config}, os.WriteFile(config, []byte(text), 0o644)
		},
	},
}

func redisArguments(fsync string) func(string, int) ([]string, error) {
	return func(dir string, port int) ([]string, error) {
		return []string{"--bind", "127.0.0.1", "--port", fmt.Sprint(port), "--dir", dir, "--save", "",
			"--appendonly", "yes", "--appendfsync", fsync}, nil
	}
}

// open starts the server.
func (p peerServer) open(ctx context.Context, say func(string)) (*Server, error) {
	found, err := findPeer(ctx, p.program, say)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(os.Getenv("ROWLOCK_TEST_DATA"), "rowlock-bench-")
	if err != nil {
		return nil, err
	}
	s := &Server{Name: p.name, Version: found.version, Durability: p.durability, Kinds: p.kinds, peer: true}
	s.closes = append(s.closes, func() error { return os.RemoveAll(dir) })
	port, err := freePort()
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	args, err := p.arguments(dir, port)
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	s.spec = side.Spec{Address: fmt.Sprintf("127.0.0.1:%d", port)}
	log := &bytes.Buffer{}
	cmd := exec.Command(found.path, append(found.args, args...)...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, log, log
	end, err := startTied(cmd)
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	s.closes = append(s.closes, func() error { end(); return nil })
	if err := answers(ctx, s); err != nil {
		closed := s.Close() // before the log is read
		return nil, errors.Join(fmt.Errorf("%w: %s", err, strings.TrimSpace(log.String())), closed)
	}
	return s, nil
}

// answers waits until the server locks a key.
func answers(ctx context.Context, s *Server) (err error) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	for {
		c, dialed := net.DialTimeout("tcp", s.spec.Address, time.Second)
		if dialed == nil {
			_ = c.Close()
			if err = lockOnce(ctx, s); err == nil {
				return nil
			}
		} else {
			err = dialed
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("%s does not answer: %w", s.Name, err)
		}
	}
}

func lockOnce(ctx context.Context, s *Server) error {
	l, err := side.Open(ctx, s.Spec(s.Kinds[0], 1))
	if err != nil {
		return err
	}
	defer l.Close()
	h, err := l.Lock(ctx, "ready")
	if err != nil {
		return err
	}
	return h.Unlock(ctx)
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	return l.Addr().(*net.TCPAddr).Port, l.Close()
}

// program is how to call a server program.
type program struct {
	path    string
	args    []string
	version string
}

//go:embed peers.sh
var fetchScript string

// findPeer looks on PATH, then in the cache, and then fetches the program.
func findPeer(ctx context.Context, name string, say func(string)) (program, error) {
	if path, err := exec.LookPath(name); err == nil && name != "zookeeper" {
		return program{path: path}.identify(ctx)
	}
	cache := os.Getenv("ROWLOCK_TEST_CACHE")
	if cache == "" {
		user, err := os.UserCacheDir()
		if err != nil {
			return program{}, err
		}
		cache = filepath.Join(user, "rowlock-testenv")
	}
	product := strings.TrimSuffix(name, "-server")
	tree := filepath.Join(cache, "peer-"+product)
	if _, err := os.Stat(tree); err != nil {
		if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
			return program{}, fmt.Errorf("no %s on PATH, and packages are for Debian on x86_64", name)
		}
		say(product + ": fetching its Debian package into " + cache)
		cmd := exec.CommandContext(ctx, "bash", "-s", "--", cache, product)
		cmd.Stdin = strings.NewReader(fetchScript)
		if out, err := cmd.CombinedOutput(); err != nil {
			return program{}, fmt.Errorf("no %s on PATH, and its package could not be fetched: %w: %s", name, err, strings.TrimSpace(string(out)))
		}
	}
	if product == "zookeeper" {
		return zooKeeper(tree)
	}
	lib := tree + "/lib/x86_64-linux-gnu"
	return program{path: lib + "/ld-linux-x86-64.so.2",
		args: []string{"--library-path", lib + ":" + tree + "/usr/lib/x86_64-linux-gnu", tree + "/usr/bin/" + name}}.identify(ctx)
}

// identify asks the program for its version.
func (p program) identify(ctx context.Context) (program, error) {
	out, err := exec.CommandContext(ctx, p.path, append(p.args[:len(p.args):len(p.args)], "--version")...).CombinedOutput()
	if err != nil {
		return p, fmt.Errorf("%s --version: %w: %s", p.path, err, out)
	}
	p.version, _, _ = strings.Cut(strings.TrimSpace(string(out)), "\n")
	if before, _, found := strings.Cut(p.version, " sha="); found {
		p.version = before
	}
	return p, nil
}

// zooKeeper is its jars on the machine's java.
func zooKeeper(tree string) (program, error) {
	java, err := exec.LookPath("java")
	if err != nil {
		return program{}, errors.New("ZooKeeper needs java on PATH")
	}
	var jars []string
	version := "ZooKeeper"
	for _, pattern := range []string{"zookeeper-[0-9]*", "zookeeper-jute", "slf4j-api", "slf4j-nop", "netty*", "metrics-core", "commons-cli", "commons-io",
		"jackson*", "jetty9-server", "jetty9-servlet", "jetty9-util", "jetty9-io", "jetty9-http", "jetty9-security", "servlet-api*", "snappy-java"} {
		found, _ := filepath.Glob(tree + "/usr/share/java/" + pattern + ".jar")
		jars = append(jars, found...)
		if strings.HasPrefix(pattern, "zookeeper-[") && len(found) > 0 {
			version = "ZooKeeper " + strings.TrimSuffix(strings.TrimPrefix(filepath.Base(found[0]), "zookeeper-"), ".jar")
		}
	}
	return program{path: java, args: []string{"-Xmx512m", "-cp", strings.Join(jars, ":")}, version: version}, nil
}
