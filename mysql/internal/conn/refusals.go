package conn

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/go-sql-driver/mysql"

	"github.com/rowlock/rowlock/internal/handshake"
)

// With TLS 1.3 a server refuses the certificate of a client when that has done its part of the handshake. The driver reads the refusal in
// the place of the server's next packet, tells it to its logger, and returns that the connection is invalid, which may pass.

// refusals is the logger of a connector, which remembers the last refusal.
type refusals struct {
	mysql.Logger
	last atomic.Pointer[error]
}

// Print implements mysql.Logger.
func (r *refusals) Print(v ...any) {
	for _, part := range v {
		if err, ok := part.(error); ok && handshake.Lasts(err) {
			r.last.Store(&err)
		}
	}
	r.Logger.Print(v...)
}

// why is err, the answer to a Connect, with the refusal that it came of.
func (r *refusals) why(err error) error {
	refusal := r.last.Swap(nil)
	if refusal == nil || !errors.Is(err, mysql.ErrInvalidConn) {
		return err
	}
	return fmt.Errorf("%w: %w", err, *refusal)
}
