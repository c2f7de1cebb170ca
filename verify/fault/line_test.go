package fault

import (
	"io"
	"net"
	"testing"
	"time"
)

// echo connects through the line and wants back what it sends.
func echo(t *testing.T, l *line) error {
	t.Helper()
	c, err := net.Dial("tcp", l.addr)
	must(t, err)
	defer c.Close()
	must(t, c.SetDeadline(time.Now().Add(5*time.Second)))
	if _, err := c.Write([]byte("hello")); err != nil {
		return err
	}
	_, err = io.ReadFull(c, make([]byte, 5))
	return err
}

// TestLockedUp: a toxiproxy that no longer takes orders is replaced.
func TestLockedUp(t *testing.T) {
	t.Parallel()
	listen, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer listen.Close()
	go func() {
		for {
			c, err := listen.Accept()
			if err != nil {
				return
			}
			go func() {
				_, _ = io.Copy(c, c)
				_ = c.Close()
			}()
		}
	}()
	l, err := newLine(listen.Addr().String())
	must(t, err)
	defer l.close()
	must(t, echo(t, l))
	stuck := l.shape()
	stuck.Toxics.Lock()
	must(t, forget(t.Context(), []*line{l}))
	must(t, echo(t, l))
	if l.shape() == stuck {
		t.Error("the same as before")
	}
	stuck.Toxics.Unlock()
	stuck.Stop()

	// The end of a client's connection passes, and so does what it sent just before.
	c, err := net.Dial("tcp", l.addr)
	must(t, err)
	_, err = c.Write([]byte("bye"))
	must(t, err)
	must(t, c.Close())
	for end := time.Now().Add(5 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		l.mu.Lock()
		n := len(l.relays)
		l.mu.Unlock()
		if n == 0 {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("%d connections stay", n)
		}
	}
}
