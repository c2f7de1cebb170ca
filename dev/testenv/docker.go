package testenv

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/moby/moby/api/pkg/stdcopy"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"
	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/log"
)

// images are the defaults; ROWLOCK_TEST_MYSQL_IMAGE and its like name others.
var images = map[string]string{"mysql": "mysql:9", "mariadb": "mariadb:11.8", "mongo": "mongo:8"}

func imageOf(kind Kind) string {
	if image := os.Getenv("ROWLOCK_TEST_" + strings.ToUpper(kind.product()) + "_IMAGE"); image != "" {
		return image
	}
	return images[kind.product()]
}

// startDocker runs the server in containers.
func startDocker(ctx context.Context, kind Kind, o order) (*Server, error) {
	if delay, _ := SlowSync(); delay > 0 {
		return nil, fmt.Errorf("%w: %s is for local servers", ErrUnavailable, slowSyncVariable)
	}
	if kind.Clustered() {
		return nil, fmt.Errorf("%w: a cluster is made of server programs of this machine", ErrUnavailable)
	}
	if o.trouble {
		return nil, fmt.Errorf("%w: a clock and a disk of a server's own are for local servers", ErrUnavailable)
	}
	engine, err := dialEngine(ctx)
	if err != nil {
		return nil, err
	}
	s := &Server{kind: kind, source: Docker, cleanup: engine.Close}
	for range kind.members() {
		n := &dockerNode{engine: engine}
		if n.port, err = freePort(); err == nil {
			err = n.create(ctx, kind, o.args)
		}
		if n.id != "" {
			s.nodes = append(s.nodes, n)
		}
		if err != nil {
			return nil, errors.Join(err, s.Close())
		}
	}
	s.address()
	return s.begin(ctx)
}

// dialEngine connects to the engine that testcontainers finds (DOCKER_HOST, the Docker context, the usual sockets).
func dialEngine(ctx context.Context) (engine *testcontainers.DockerClient, err error) {
	log.SetDefault(log.NewNoopLogger())
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	defer func() {
		if p := recover(); p != nil { // its way to say that there is no engine
			err = fmt.Errorf("%w: no container engine: %v", ErrUnavailable, p)
		}
	}()
	engine, err = testcontainers.NewDockerClientWithOpts(ctx)
	if err == nil {
		_, err = engine.Ping(ctx, client.PingOptions{})
	}
	if err != nil {
		return nil, fmt.Errorf("%w: no container engine: %w", ErrUnavailable, err)
	}
	return engine, nil
}

// dockerNode is a container.
type dockerNode struct {
	engine *testcontainers.DockerClient
	id     string
	port   int // on 127.0.0.1, chosen by us: one that the engine chooses changes with every start

	running, paused bool
	looked          time.Time // when gone last asked the engine
}

// create makes the container, not started yet. The image is pulled if it is not there.
func (n *dockerNode) create(ctx context.Context, kind Kind, args []string) error {
	inside := 3306
	options := []testcontainers.ContainerCustomizer{testcontainers.WithNoStart()}
	if kind.isMongo() {
		inside = n.port // a member of a set calls itself by the address that clients use
		options = append(options, testcontainers.WithCmd(append(mongodContainerArgs(kind, n.port), args...)...))
	} else {
		prefix := strings.ToUpper(kind.product())
		options = append(options, testcontainers.WithCmd(append(mysqldContainerArgs(), args...)...),
			testcontainers.WithEnv(map[string]string{prefix + "_ROOT_PASSWORD": rootPassword, prefix + "_DATABASE": "test"}))
	}
	if kind == Mongo3 {
		// The members reach each other, and the clients reach them, at the same addresses only in the machine's network.
		options = append(options, testcontainers.WithHostConfigModifier(func(h *container.HostConfig) { h.NetworkMode = "host" }))
	} else {
		port, _ := network.PortFrom(uint16(inside), network.TCP)
		options = append(options, testcontainers.WithExposedPorts(port.String()),
			testcontainers.WithHostConfigModifier(func(h *container.HostConfig) {
				h.PortBindings = network.PortMap{port: {{HostIP: netip.MustParseAddr("127.0.0.1"), HostPort: strconv.Itoa(n.port)}}}
			}))
	}
	c, err := testcontainers.Run(ctx, imageOf(kind), options...)
	if c != nil {
		n.id = c.GetContainerID()
	}
	if err != nil {
		return fmt.Errorf("image %s: %w", imageOf(kind), err)
	}
	return nil
}

func (n *dockerNode) addr() string { return fmt.Sprintf("127.0.0.1:%d", n.port) }
func (n *dockerNode) up() bool     { return n.running && !n.paused }

func (n *dockerNode) start() error {
	ctx, cancel := engineTimeout()
	defer cancel()
	_, err := n.engine.ContainerStart(ctx, n.id, client.ContainerStartOptions{})
	n.running = err == nil
	n.looked = time.Now()
	return err
}

func (n *dockerNode) pause() error {
	ctx, cancel := engineTimeout()
	defer cancel()
	_, err := n.engine.ContainerPause(ctx, n.id, client.ContainerPauseOptions{})
	n.paused = n.paused || err == nil
	return err
}

func (n *dockerNode) resume() error {
	if !n.paused {
		return nil
	}
	ctx, cancel := engineTimeout()
	defer cancel()
	_, err := n.engine.ContainerUnpause(ctx, n.id, client.ContainerUnpauseOptions{})
	n.paused = err != nil
	return err
}

func (n *dockerNode) kill() error {
	if !n.running {
		return nil
	}
	ctx, cancel := engineTimeout()
	defer cancel()
	// The engine lets a paused container go on only after the signal is there.
	_, refused := n.engine.ContainerKill(ctx, n.id, client.ContainerKillOptions{Signal: "KILL"})
	for {
		running, err := n.inspect(ctx)
		if err == nil && !running { // also when it had ended by itself, which the engine refuses to kill
			n.running, n.paused = false, false
			return nil
		}
		if err = errors.Join(refused, err); err != nil {
			return err
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func (n *dockerNode) remove() error {
	ctx, cancel := engineTimeout()
	defer cancel()
	_, err := n.engine.ContainerRemove(ctx, n.id, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
	return err
}

// gone asks the engine at most twice a second.
func (n *dockerNode) gone() error {
	if time.Since(n.looked) < 500*time.Millisecond {
		return nil
	}
	n.looked = time.Now()
	ctx, cancel := engineTimeout()
	defer cancel()
	if running, err := n.inspect(ctx); err != nil || running {
		return err
	}
	n.running = false
	return errors.New("the container ended by itself:\n" + n.logs(ctx))
}

// logs is the end of what the server wrote.
func (n *dockerNode) logs(ctx context.Context) string {
	r, err := n.engine.ContainerLogs(ctx, n.id, client.ContainerLogsOptions{ShowStdout: true, ShowStderr: true, Tail: "20"})
	if err != nil {
		return err.Error()
	}
	defer r.Close()
	var text bytes.Buffer
	_, _ = stdcopy.StdCopy(&text, &text, r)
	return text.String()
}

func (n *dockerNode) inspect(ctx context.Context) (running bool, err error) {
	r, err := n.engine.ContainerInspect(ctx, n.id, client.ContainerInspectOptions{})
	if err != nil {
		return false, err
	}
	return r.Container.State.Running, nil
}

// engineTimeout bounds one request to the engine.
func engineTimeout() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), 30*time.Second)
}
