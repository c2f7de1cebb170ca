package locktx

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/rowlock/rowlock/mysql/internal/cluster"
	"github.com/rowlock/rowlock/mysql/internal/conn"
)

// A node of Galera acknowledges a commit when the others have received it; they apply it later, in the same
// order. So a node that becomes the writer may answer before it shows what was committed on the one before. A
// statement that changes a row cannot mislead: its own commit comes after those. One that only reads or locks
// rows can, unless the session asks for a causality check:
// https://mariadb.com/docs/galera-cluster/reference/galera-cluster-system-variables#wsrep_sync_wait
//
// In a transaction the check is done for the first statement only. So it is done on a connection of the
// Store.

// errBehind: the node does not show yet what was committed before. The server answers a causality wait that
// took too long (repl.causal_read_timeout of the provider, 30 s), or that failed, with 1205, as if a lock had
// been waited for.
var errBehind = errors.New("the node of Galera does not show yet what was committed before (wsrep_sync_wait)")

// queryCausal is conn.Query for a SELECT of names, which on a node of Galera waits until everything is
// applied that was committed on any node before; errBehind: in vain.
func (l *Locker) queryCausal(ctx context.Context, c *conn.Conn, text string) ([]string, error) {
	variables, err := l.db.Variables(ctx, c)
	switch {
	case err != nil:
		return nil, err
	case cluster.KindOf(variables) != cluster.Galera:
		return conn.Query(ctx, c, 0, text, conn.ScanKey)
	}
	var found []string
	start := time.Now()
	if strings.Contains(strings.ToLower(variables["version"]), "mariadb") {
		found, err = conn.Query(ctx, c, 0, "SET STATEMENT wsrep_sync_wait=1 FOR "+text, conn.ScanKey)
	} else {
		found, err = CausalBySession(ctx, c, text)
	}
	// A plain SELECT waits for no row. One that waited for the table was ended when its session's time for
	// that was over.
	if took := time.Since(start); conn.Number(err) == conn.ErLockWait && (took < conn.LockWait*9/10 || took >= 2*conn.LockWait) {
		err = errBehind
	}
	return found, err
}

// CausalBySession is for Percona XtraDB Cluster, which knows no SET STATEMENT. The session is left as it was.
func CausalBySession(ctx context.Context, c *conn.Conn, text string) (found []string, err error) {
	before, err := conn.Query(ctx, c, 0, "SELECT @@SESSION.wsrep_sync_wait", conn.ScanOne[int])
	if err != nil {
		return nil, err
	}
	if _, err = c.Exec(ctx, 0, "SET SESSION wsrep_sync_wait=1,wsrep_dirty_reads=0"); err != nil {
		return nil, err
	}
	found, err = conn.Query(ctx, c, 0, text, conn.ScanKey)
	if _, reset := c.Exec(ctx, 0, fmt.Sprint("SET SESSION wsrep_sync_wait=", before[0])); reset != nil {
		c.Broken = true // nobody else is to wait
	}
	return found, err
}
