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

// TestForgetWhileALineDrains: of two toxics the first is through with a connection and the second is not, as they are
// removed. toxiproxy ended the process when the next came.
func TestForgetWhileALineDrains(t *testing.T) {
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
			go func() { _, _ = io.Copy(io.Discard, c); _ = c.Close() }()
		}
	}()
	l, err := newLine(listen.Addr().String())
	must(t, err)
	defer l.close()
	for range 3 {
		must(t, l.add("slicer", map[string]any{"average_size": 1 << 16, "size_variation": 0, "delay": 0}))
		must(t, l.add("bandwidth", map[string]any{"rate": 1}))
		c, err := net.Dial("tcp", l.addr)
		must(t, err)
		_, err = c.Write(make([]byte, 500))
		must(t, err)
		must(t, c.Close())
		time.Sleep(50 * time.Millisecond) // the slicer has all
		must(t, forget(t.Context(), []*line{l}))
		must(t, l.add("latency", map[string]any{"latency": 1}))
		must(t, forget(t.Context(), []*line{l}))
	}
}
