package conn

import (
	"context"
	"database/sql"
	"strings"
)

// LogsStatements reports whether the server writes statements to its binary log, not
// rows (binlog_format).
func (d *DB) LogsStatements(ctx context.Context, c *Conn) (bool, error) {
	v, err := d.Variables(ctx, c)
	logs := v["log_bin"] == "ON" || v["log_bin"] == "1"
	return logs && strings.EqualFold(v["binlog_format"], "STATEMENT"), err
}

// settings are variables of the server, by their names in small letters.
type settings map[string]string

// Variables are those of the server that say what its transactions are good for: how they
// are logged, and whether other servers write too. It asks once, until another server is
// the primary. A server may lack any of them.
func (d *DB) Variables(ctx context.Context, c *Conn) (map[string]string, error) {
	if known := d.serverValues.Load(); known != nil {
		return *known, nil
	}
	type variable struct{ name, value string }
	found, err := Query(ctx, c, 0, "SHOW SESSION VARIABLES WHERE Variable_name IN ('version','log_bin','binlog_format',"+
		"'wsrep_on','wsrep_provider','group_replication_group_name','group_replication_single_primary_mode')", func(rows *sql.Rows) (v variable, err error) {
		err = rows.Scan(&v.name, &v.value)
		return v, err
	})
	if err != nil {
		return nil, err
	}
	values := make(settings, len(found))
	for _, v := range found {
		values[strings.ToLower(v.name)] = v.value
	}
	d.serverValues.Store(&values)
	return values, nil
}
