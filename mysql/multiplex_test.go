package mysqllock

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"slices"
	"sync"
	"testing"
)

// multiplexer is a proxy whose clients share its connections to the servers behind it: each statement goes to the next.
// The first clients log in at the servers, one each; of those that come later it takes the user's name as good.
type multiplexer struct {
	addr    string
	answers string // a statement that the proxy answers itself

	mu       sync.Mutex
	servers  []string
	backends []net.Conn
	greeting []byte // of the first server
	next     int
}

func newMultiplexer(t testing.TB, servers ...string) *multiplexer {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	m := &multiplexer{addr: listener.Addr().String(), servers: servers}
	var open sync.WaitGroup
	var mu sync.Mutex
	var clients []net.Conn
	t.Cleanup(func() {
		_ = listener.Close()
		mu.Lock()
		for _, c := range clients {
			_ = c.Close()
		}
		mu.Unlock()
		open.Wait()
		for _, b := range m.backends {
			_ = b.Close()
		}
	})
	open.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			clients = append(clients, client)
			mu.Unlock()
			open.Go(func() {
				defer client.Close()
				if err := m.greet(client); err == nil {
					m.serve(client)
				}
			})
		}
	})
	return m
}

// greet logs a client in.
func (m *multiplexer) greet(client net.Conn) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.backends) < len(m.servers) {
		return m.login(client)
	}
	if _, err := client.Write(m.greeting); err != nil {
		return err
	}
	p, err := readPacket(client)
	if err == nil {
		_, err = client.Write(packet(p[3]+1, okay))
	}
	return err
}

// okay is the payload of an OK packet: no rows, autocommit.
var okay = []byte{0, 0, 0, 2, 0, 0, 0}

// login carries a client's login to the next server.
func (m *multiplexer) login(client net.Conn) error {
	server, err := net.Dial("tcp", m.servers[len(m.backends)])
	if err != nil {
		return err
	}
	greeting, err := readPacket(server)
	if err != nil {
		return errors.Join(err, server.Close())
	}
	plain(greeting)
	for p, from := greeting, server; ; {
		to := client
		if from == client {
			to = server
		}
		if _, err = to.Write(p); err != nil {
			break
		}
		if from == server && p[3] > 0 && (p[4] == 0 || p[4] == 0xff) {
			break
		}
		// A server that asks for more of the login ends with something that needs no answer, but for 0xfe and 0x01 02.
		from = to
		if to == client && p[3] > 0 && bytes.Equal(p[4:], []byte{1, 3}) {
			from = server
		}
		if p, err = readPacket(from); err != nil {
			break
		}
	}
	if err != nil {
		return errors.Join(err, server.Close())
	}
	if m.greeting == nil {
		m.greeting = greeting
	}
	m.backends = append(m.backends, server)
	return nil
}

// plain takes out of a greeting what the proxy does not understand: TLS, compression, the short form of the end of rows,
// and the extensions of MariaDB.
func plain(p []byte) {
	at := 4 + 1 + bytes.IndexByte(p[5:], 0) + 1 + 4 + 8 + 1
	const compress, tls = 1 << 5, 1 << 11
	low := binary.LittleEndian.Uint16(p[at:])
	binary.LittleEndian.PutUint16(p[at:], low&^(compress|tls))
	const deprecateEOF, zstd, attributes = 1 << (24 - 16), 1 << (26 - 16), 1 << (27 - 16)
	high := binary.LittleEndian.Uint16(p[at+5:])
	binary.LittleEndian.PutUint16(p[at+5:], high&^(deprecateEOF|zstd|attributes))
	clear(p[at+8+6 : at+8+10])
}

const (
	comQuit      = 1
	comQuery     = 3
	comPrepare   = 0x16
	comStmtClose = 0x19
)

// serve carries a client's statements.
func (m *multiplexer) serve(client net.Conn) {
	for {
		p, err := readPacket(client)
		if err != nil || p[4] == comQuit {
			return
		}
		if m.answers != "" && p[4] == comQuery && string(p[5:]) == m.answers {
			if _, err := client.Write(packet(1, okay)); err != nil {
				return
			}
			continue
		}
		if m.carry(client, p) != nil {
			return
		}
	}
}

// carry sends one statement to the next server, and the whole answer back.
func (m *multiplexer) carry(client net.Conn, p []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	server := m.backends[m.next%len(m.backends)]
	m.next++
	if _, err := server.Write(p); err != nil || p[4] == comStmtClose {
		return err
	}
	back := func() ([]byte, error) {
		p, err := readPacket(server)
		if err == nil {
			_, err = client.Write(p)
		}
		return p, err
	}
	first, err := back()
	if err != nil {
		return err
	}
	lists := 0 // each ends with an EOF packet
	switch {
	case first[4] == 0xff:
	case p[4] == comPrepare:
		for _, at := range []int{9, 11} { // columns, and parameters
			if binary.LittleEndian.Uint16(first[at:]) > 0 {
				lists++
			}
		}
	case first[4] != 0:
		lists = 2 // columns, and rows
	}
	for lists > 0 {
		p, err := back()
		if err != nil {
			return err
		}
		switch {
		case p[4] == 0xff:
			return nil
		case p[4] == 0xfe && len(p) < 4+9:
			lists--
		}
	}
	return nil
}

// readPacket reads one with its head: three bytes of length, and a number.
func readPacket(r io.Reader) ([]byte, error) {
	p := make([]byte, 4)
	if _, err := io.ReadFull(r, p); err != nil {
		return nil, err
	}
	n := int(p[0]) | int(p[1])<<8 | int(p[2])<<16
	p = slices.Grow(p, n)[:4+n]
	_, err := io.ReadFull(r, p[4:])
	if n == 0 && err == nil {
		err = io.ErrUnexpectedEOF
	}
	return p, err
}

// packet is a payload with its head.
func packet(number byte, payload []byte) []byte {
	return append([]byte{byte(len(payload)), byte(len(payload) >> 8), byte(len(payload) >> 16), number}, payload...)
}
