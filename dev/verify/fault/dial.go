package fault

import (
	"context"
	"net"
)

// Dialer dials other addresses than it is asked for: those of a Proxy. It is for
// options.Client().SetDialer of the MongoDB driver, in the client process.
type Dialer map[string]string

// DialContext dials what stands for the address, or the address itself.
func (d Dialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	if other, ok := d[address]; ok {
		address = other
	}
	return new(net.Dialer).DialContext(ctx, network, address)
}
