package mysqllock

import (
	"fmt"
	"net"
	"sync/atomic"
	"testing"

	"github.com/rowlock/rowlock/internal/testserver"
	"github.com/rowlock/rowlock/mysql/internal/conn"
)

// A primary that froze accepts connections and says nothing on them. Connects that were begun while the address led to it are not lost
// time when it leads to a server that answers, however many they are.
func TestP27_ConnectsThatHang(t *testing.T) {
	t.Parallel()
	for _, hanging := range []int{1, 8} {
		t.Run(fmt.Sprint(hanging), func(t *testing.T) {
			t.Parallel()
			l := newLab(t, testserver.MySQL, VersionColumn)
			server := newSwitcher(t, l.config.Addr)
			var came atomic.Int64
			over := make(chan struct{})
			config := l.config.Clone()
			config.Addr = accept(t, func(client net.Conn) {
				if came.Add(1) <= int64(hanging) {
					<-over
					_ = client.Close()
				} else {
					server.serve(client)
				}
			}, func() { close(over) }).Addr().String()
			connector, err := conn.NewConnector(config)
			must(t, err)
			done := make(chan error, hanging)
			for range hanging {
				go func() {
					c, err := connector.Connect(patient(t))
					if err == nil {
						err = c.Close()
					}
					done <- err
				}()
			}
			for range hanging {
				must(t, <-done)
			}
			t.Logf("%d connections were opened, %d of them to a server that says nothing", came.Load(), hanging)
		})
	}
}
