package testenv

import (
	"errors"
	"math/rand/v2"
	"net"
	"sync"
)

// reserved keeps the ports that this process has handed out, until it ends.
var reserved struct {
	sync.Mutex
	by []net.PacketConn
}

// freePort picks a port that nobody listens on, and no other process here picks: one whose server does not listen yet,
// or is killed at the moment, looks free, and a member of a replica set that came to another's port would be drawn into
// its set. A UDP socket on the same number, which no server here uses, says that it is taken; the kernel takes it back
// when this process ends. The port lies below the range the kernel takes outgoing connections from: otherwise one of
// those could sit on it while a killed server waits to be started again.
func freePort() (int, error) {
	ip := net.IPv4(127, 0, 0, 1)
	for range 100 {
		port := 20000 + rand.IntN(12000)
		reservation, err := net.ListenUDP("udp4", &net.UDPAddr{IP: ip, Port: port})
		if err != nil {
			continue
		}
		l, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: ip, Port: port})
		if err != nil {
			_ = reservation.Close()
			continue
		}
		reserved.Lock()
		reserved.by = append(reserved.by, reservation)
		reserved.Unlock()
		return port, l.Close()
	}
	return 0, errors.New("no free port between 20000 and 32000")
}
