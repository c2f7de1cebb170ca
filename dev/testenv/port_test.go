package testenv

import (
	"net"
	"testing"
)

// TestPortsAreReserved: a port that was handed out is free for its server, and is told to other processes as taken.
func TestPortsAreReserved(t *testing.T) {
	port, err := freePort()
	if err != nil {
		t.Fatal(err)
	}
	ip := net.IPv4(127, 0, 0, 1)
	if reservation, err := net.ListenUDP("udp4", &net.UDPAddr{IP: ip, Port: port}); err == nil {
		_ = reservation.Close()
		t.Errorf("another process could be given port %d too", port)
	}
	l, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: ip, Port: port})
	if err != nil {
		t.Fatalf("the server cannot listen on port %d: %v", port, err)
	}
	_ = l.Close()
}
