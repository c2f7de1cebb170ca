package conn

import (
	"context"
	"database/sql"
	"fmt"
)

// Run is one run of a server, from its start to its end. What a session has locked and its number mean something in
// that run only: not after a restart, nor on another server.
type Run struct {
	Server  string // server_uuid; MariaDB: hostname:port:server_id
	Started int64  // seconds since 1970 by the server's clock, off by RunSlack at most
}

// RunSlack is the largest difference, in seconds, between two answers to when one run started: the server counts the
// time since then in whole seconds.
const RunSlack = 2

// Same reports whether both are one run.
func (r Run) Same(other Run) bool {
	d := r.Started - other.Started
	return r.Server == other.Server && -RunSlack <= d && d <= RunSlack
}

// RunColumns are those of Run's answer. Every user may read the table.
const RunColumns = "COALESCE(/*!80000 @@server_uuid, */ " + ServerName + "),TIMESTAMPDIFF(SECOND,'1970-01-01',UTC_TIMESTAMP())-" +
	"(SELECT CAST(VARIABLE_VALUE AS SIGNED) FROM /*!80000 performance_schema.global_status */ /*M!100600 information_schema.GLOBAL_STATUS */ WHERE VARIABLE_NAME='Uptime')"

// Run is the run of the server that the connection leads to. It is asked for once.
func (c *Conn) Run(ctx context.Context) (Run, error) {
	if c.inRun != (Run{}) {
		return c.inRun, nil
	}
	found, err := Query(ctx, c, 0, "SELECT "+RunColumns, func(rows *sql.Rows) (r Run, err error) {
		err = rows.Scan(&r.Server, &r.Started)
		return r, err
	})
	if err == nil && len(found) != 1 {
		err = fmt.Errorf("%d rows say which run of the server this is", len(found))
	}
	if err != nil {
		return Run{}, err
	}
	return c.LeadsTo(found[0]), nil
}

// LeadsTo notes the answer to Run that another statement brought.
func (c *Conn) LeadsTo(r Run) Run {
	c.inRun = r
	return r
}
