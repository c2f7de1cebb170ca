package testenv

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
)

// given are the ports this process has handed out: one whose server does not listen yet, or is killed at the moment,
// looks free.
var given sync.Map

// freePort picks a port that nobody listens on. It lies below the range the kernel takes outgoing connections from:
// otherwise one of those could sit on it while a killed server waits to be started again.
func freePort() (int, error) {
	for range 100 {
		port := 20000 + rand.IntN(12000)
		if _, taken := given.LoadOrStore(port, true); taken {
			continue
		}
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err == nil {
			return port, l.Close()
		}
	}
	return 0, errors.New("no free port between 20000 and 32000")
}
