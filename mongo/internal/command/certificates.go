package command

import (
	"errors"

	"go.mongodb.org/mongo-driver/v2/x/mongo/driver/topology"

	"github.com/rowlock/rowlock/internal/handshake"
)

// untrusted reports whether err says that no connection can be made because TLS fails in the same way at the next try: that of a
// connection, or, where no server was found, that of all servers that the driver knows. One that is only away is worth a wait.
func untrusted(err error) bool {
	var selection topology.ServerSelectionError
	if !errors.As(err, &selection) {
		return inHandshake(err) && handshake.Lasts(err)
	}
	for _, s := range selection.Desc.Servers {
		if !handshake.Lasts(s.LastError) {
			return false
		}
	}
	return len(selection.Desc.Servers) > 0
}
