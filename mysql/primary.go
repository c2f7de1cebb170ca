package mysqllock

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"

	"github.com/go-sql-driver/mysql"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/internal/dsn"
	"github.com/rowlock/rowlock/mysql/internal/cluster"
)

// OpenPrimary is [Open] of a Store on the one of several servers that takes writes: the primary of a replication, of a
// group, or the node of a Galera cluster that all programs are to use. Each DSN names one server; all name the same
// database, and every program has them in the same order. It does no I/O.
//
// The servers are asked when a connection is made, so also after one has failed, or was answered that its server is
// read-only. While none takes writes the error names all servers and what each said; it is a passing one, which Acquire
// waits through, and for half a minute the servers are asked ten times a second. When another takes writes than before,
// all connections of the Store to the others are closed: leases are renewed on the new one, and those of SelectForUpdate
// are lost, as after any end of their sessions.
//
// Where several servers take writes, that of a Group Replication is used which most members name as the primary (the
// user needs SELECT on performance_schema.replication_group_members), of semi-synchronous servers the one whose
// replicas acknowledge, and of Galera's nodes, or the primaries of a group with several, the first in the order of dsns
// that can serve; then one that did not stop answering before. What is left is an error that names them. Asynchronous
// replicas have no say: keep them read-only.
//
// For each server that is asked there is one more connection, which is closed after ten idle seconds. Networks that
// were registered with the driver cannot be used. The other rules, and the errors, are those of Open; too few DSNs,
// two of one address, and two that name different databases match rowlock.ErrInvalid.
func OpenPrimary(dsns []string, o Options) (*Store, error) {
	f, err := finder(dsns)
	if err != nil {
		return nil, err
	}
	pool := sql.OpenDB(cluster.Connector{Finder: f})
	s, err := newStore(pool, true, f.Database(), o)
	if err != nil {
		return nil, errors.Join(err, pool.Close()) // which closes the Finder
	}
	return s, nil
}

// PrimaryDialer dials, for pools of the program's, the one of several servers that takes writes, by the rules of
// [OpenPrimary]. It is safe for concurrent use.
type PrimaryDialer struct{ f *cluster.Finder }

// NewPrimaryDialer makes a dialer for
//
//	mysql.RegisterDialContext("primary", dialer.DialContext)
//	db, err := sql.Open("mysql", "user:password@primary(any)/database?rejectReadOnly=true")
//
// where mysql is github.com/go-sql-driver/mysql. The DSNs say where the servers are, and as whom to ask them; the pool
// logs in as its own DSN says. It does no I/O. The errors are those of OpenPrimary.
//
// Connections to the others are closed when another server takes writes, which ends statements that hang there. That
// is noticed when a connection is made: without rejectReadOnly=true the driver would keep one whose server answers that
// it is read-only. With TLS name a tls.Config with its ServerName, because the driver does not know whom it speaks to.
func NewPrimaryDialer(dsns []string) (*PrimaryDialer, error) {
	f, err := finder(dsns)
	if err != nil {
		return nil, err
	}
	return &PrimaryDialer{f}, nil
}

// DialContext connects to the server that takes writes; address is ignored. While none does it fails with an error that
// names the servers and what each said. After Close it fails with an error that matches rowlock.ErrClosed.
func (d *PrimaryDialer) DialContext(ctx context.Context, address string) (net.Conn, error) {
	return d.f.Dial(ctx)
}

// Close ends what the dialer does in the background. Connections that it made stay, and are not closed by it any more.
func (d *PrimaryDialer) Close() error { return d.f.Close() }

func finder(dsns []string) (*cluster.Finder, error) {
	if len(dsns) == 0 {
		return nil, fmt.Errorf("%w: no DSN: name each server of the cluster, as %s", driver.ErrInvalid, dsn.Form)
	}
	configs := make([]*mysql.Config, len(dsns))
	at := make(map[string]int)
	for i, text := range dsns {
		c, err := poolConfig(text)
		if err != nil {
			return nil, fmt.Errorf("DSN %d of %d: %w", i+1, len(dsns), err)
		}
		if first, twice := at[c.Addr]; twice {
			return nil, fmt.Errorf("%w: DSNs %d and %d both name %s: name each server once", driver.ErrInvalid, first, i+1, c.Addr)
		}
		at[c.Addr] = i + 1
		if want := configs[0]; i > 0 && want.DBName != c.DBName {
			return nil, fmt.Errorf("%w: DSN 1 names database %q, DSN %d %q: the lock tables are in one", driver.ErrInvalid, want.DBName, i+1, c.DBName)
		}
		configs[i] = c
	}
	return cluster.NewFinder(configs)
}
